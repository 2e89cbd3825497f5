"""What a model could have written: find the warmest city and save a report."""

from concurrent.futures import ThreadPoolExecutor

from refly_tools.demo import Demo

# What can be called, a line each. Nothing of it was imported: tools are functions.
print(search_tools("weather"))

# As a class method, a call returns a dict with a status ...
answer = Demo.list_cities(min_population=500_000)
if answer["status"] != "success":
    raise SystemExit("call failed: " + answer["error"])
cities = answer["data"]["cities"]
print(f"{len(cities)} cities; asking for the weather of all at once")

# ... and as a function it returns the value, and raises an exception if it fails.
with ThreadPoolExecutor(max_workers=8) as pool:
    forecasts = list(pool.map(lambda city: get_weather(city["name"], days=5), cities))

means = {f["city"]: sum(day["celsius"] for day in f["forecast"]) / len(f["forecast"]) for f in forecasts}
for name, mean in sorted(means.items(), key=lambda item: -item[1]):
    print(f"  {name:<8} {mean:5.1f} °C")

warmest = max(means, key=means.get)
currency = next(city["currency"] for city in cities if city["name"] == warmest)
budget = convert_currency(amount=1000, to=currency, **{"from": "USD"})
print(f"{warmest} is the warmest; 1000 USD are {budget['amount']:.2f} {budget['currency']} there")

# A tool that fails costs only itself, and nothing.
try:
    fail()
except ToolExecutionError as error:
    print(f"one call fails on purpose: {error.tool}: {error.code}: {error.message[:60]}…")

report = "\n".join(f"{name}: {mean:.1f}" for name, mean in means.items())
note = save_note("Warmest cities", report)
print(f"saved a note of {note['characters']} characters")
