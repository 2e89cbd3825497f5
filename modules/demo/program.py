"""What a model could have written: find the warmest city and save a report."""

from concurrent.futures import ThreadPoolExecutor

from refly_tools.demo import Demo


def data(result):
    """The data of a call that worked; the program ends at one that did not."""
    if result["status"] != "success":
        raise SystemExit("call failed: " + result["error"])
    return result["data"]


cities = data(Demo.list_cities(file_name_title="cities", min_population=500_000))["cities"]
print(f"{len(cities)} cities; asking for the weather of all at once")

with ThreadPoolExecutor(max_workers=8) as pool:
    forecasts = list(pool.map(
        lambda city: data(Demo.get_weather(file_name_title="weather", city=city["name"], days=5)), cities))

means = {f["city"]: sum(day["celsius"] for day in f["forecast"]) / len(f["forecast"]) for f in forecasts}
for name, mean in sorted(means.items(), key=lambda item: -item[1]):
    print(f"  {name:<8} {mean:5.1f} °C")

warmest = max(means, key=means.get)
currency = next(city["currency"] for city in cities if city["name"] == warmest)
budget = data(Demo.convert_currency(file_name_title="budget", amount=1000, from_="USD", to=currency))
print(f"{warmest} is the warmest; 1000 USD are {budget['amount']:.2f} {budget['currency']} there")

# A tool that fails costs only itself, and nothing.
outage = Demo.fail(file_name_title="outage")
print(f"one call fails on purpose: {outage['status']}: {outage['error'][:60]}…")

report = "\n".join(f"{name}: {mean:.1f}" for name, mean in means.items())
note = data(Demo.save_note(file_name_title="report", title="Warmest cities", text=report))
print(f"saved a note of {note['characters']} characters")
