"""What estimates of throughput are worth."""
