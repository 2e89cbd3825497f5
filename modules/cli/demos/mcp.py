# A tool of an MCP server is called like every tool.
for day in ("Saturday", "Sunday"):
    print(day, hours__opening_hours(day=day))
try:
    hours__opening_hours(day="Someday")
except ToolExecutionError as error:
    print("Refused:", error)
