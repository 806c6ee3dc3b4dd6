"""What goes on beside requests: runs and installs under way, open approval questions, the clock of schedules."""
