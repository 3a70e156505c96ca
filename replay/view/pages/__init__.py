"""The pages, a module each: functions of the site and a request."""
