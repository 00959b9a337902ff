"""The rules by which the controller decides: confidence, batches, checkpoints, stalls and loops."""
