"""The study of intervals: how often those of published analyses cover fixed truths, over a design of settings.

`design` has the settings, `answers` simulates what curators answer there, `case` says what is compared, the modules of
cases say it for each sort of analysis, and `study` counts.
"""
