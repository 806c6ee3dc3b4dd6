"""What every request passes before it comes to its route, and every answer on its way back. Nothing here imports `routes`."""
