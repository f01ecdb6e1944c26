"""What is solved in place of an instance: fewer rows, in one order; and the way back."""
