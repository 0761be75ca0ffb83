"""What bounds the accuracy of `cells` where a bar is out of reach."""
