"""Several runs of one scenario at different epsilons as one page: result against epsilon."""
