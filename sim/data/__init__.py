"""Tables that the generators carry as cited figures."""
