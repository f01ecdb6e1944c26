"""What the policies mean, with scipy and Clarabel: nothing of the library is used."""
