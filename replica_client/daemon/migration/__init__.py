"""Other tools' configurations and saved offsets as ours."""
