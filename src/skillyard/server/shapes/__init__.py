"""The pydantic models of requests and answers that several routes share, and the functions that make them of records."""
