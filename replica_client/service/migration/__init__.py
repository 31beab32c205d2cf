"""Conversion of other tools' configurations and saved offsets to ours."""
