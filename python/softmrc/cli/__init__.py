"""The `softmrc` command. Top room: imports anything, nobody imports it."""
