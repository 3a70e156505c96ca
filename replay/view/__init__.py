"""The local page: what the reports show, and the decisions of triage and calibration, in a browser."""
