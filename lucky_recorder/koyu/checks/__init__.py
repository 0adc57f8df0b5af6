"""What `check_koyu` verifies, of a dataset and of each bundle. Nothing here asks the writer."""
