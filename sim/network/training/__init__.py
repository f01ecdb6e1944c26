"""What models send as they train: by architecture, parallelism, measurement, or as files say it."""
