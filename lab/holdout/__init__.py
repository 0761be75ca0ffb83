"""The blog's experiment: variables chosen on a holdout that is asked thousands of times, and what that costs."""
