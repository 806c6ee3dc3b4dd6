"""Background work: runs and installs in progress, open approval questions, the clock of schedules."""
