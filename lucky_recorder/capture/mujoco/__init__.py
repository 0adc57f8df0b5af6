"""Looking at a MuJoCo simulation."""
