package app_test

func pictures() map[string]question {
	return map[string]question{
		"a plot by seaborn": {file: "plot.png", code: `
import pandas as pd, seaborn as sns, matplotlib.pyplot as plt
sns.set_theme()
frame = pd.DataFrame({"day": ["Mon", "Tue", "Mon", "Tue"], "tip": [1, 2, 3, 5], "sex": ["f", "m", "m", "f"]})
ax = sns.boxplot(frame, x="day", y="tip", hue="sex")
ax.set_title("Tips")
plt.savefig("plot.png", dpi=80); plt.close()`, again: `
from PIL import Image
import numpy as np
picture = Image.open("plot.png").convert("RGB")
print(picture.size, len(np.unique(np.asarray(picture).reshape(-1, 3), axis=0)) > 50)`, read: "(512, 384) True"},
		// The page must work without a network, where it is opened too.
		"a page by plotly": {file: "plot.html", code: `
import pandas as pd, plotly.express as px
figure = px.scatter(pd.DataFrame({"x": [1, 2], "y": [3, 4], "who": ["a", "b"]}), x="x", y="y", color="who", title="Points")
figure.write_html("plot.html")
figure.write_json("plot.json")`, again: `
page = open("plot.html").read()
import plotly.io
print("Plotly.newPlot" in page, "<script src=" in page, len(page) > 1_000_000, plotly.io.read_json("plot.json").layout.title.text)`, read: "True False True Points"},
		"a picture by opencv": {file: "small.png", code: `
import cv2, numpy as np
picture = np.zeros((400, 600, 3), np.uint8)
cv2.rectangle(picture, (100, 100), (300, 200), (0, 0, 255), -1)
cv2.putText(picture, "text", (320, 300), cv2.FONT_HERSHEY_SIMPLEX, 2, (255, 255, 255), 3)
cv2.imwrite("small.png", cv2.GaussianBlur(cv2.resize(picture, (300, 200)), (5, 5), 0))`, again: `
import cv2
picture = cv2.imread("small.png")
edges = cv2.Canny(cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY), 50, 150)
print(picture.shape, edges.any(), picture[75, 100].tolist())`, read: "(200, 300, 3) True [0, 0, 255]"},
	}
}

func statistics() map[string]question {
	return map[string]question{
		"a regression with its summary": {file: "summary.txt", code: `
import numpy as np, pandas as pd, statsmodels.api as sm, statsmodels.formula.api as smf
rng = np.random.default_rng(1)
frame = pd.DataFrame({"x": np.arange(50.0), "g": list("ab") * 25})
frame["y"] = 3 * frame.x + (frame.g == "b") * 10 + rng.normal(0, 0.1, 50)
model = smf.ols("y ~ x + C(g)", frame).fit()
open("summary.txt", "w").write(model.summary().as_text())
print(abs(model.params).round(1).tolist(), model.rsquared > 0.99)
print(sm.OLS(frame.y, sm.add_constant(frame[["x"]])).fit().params.x.round())
from statsmodels.tsa.arima.model import ARIMA
print(len(ARIMA(frame.y, order=(1, 1, 0)).fit().forecast(3)))`, stdout: "[0.0, 10.0, 3.0] True\n3.0\n3", again: `
text = open("summary.txt").read()
print("OLS Regression Results" in text, "C(g)[T.b]" in text)`, read: "True True"},
		"algebra": {stdout: "[-2, 2]\nx*log(x) - x\nsqrt(pi)\n\\frac{x}{2}\n{x: 1, y: 2}", code: `
from sympy import *
x, y = symbols("x y")
print(solve(x**2 - 4, x))
print(integrate(log(x), x))
print(integrate(exp(-x**2), (x, -oo, oo)))
print(latex(x / 2))
print(solve([x + y - 3, x - y + 1], [x, y]))`},
		"a classifier": {stdout: "1.0 2", code: `
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_score
X, y = load_iris(return_X_y=True)
print(round(cross_val_score(RandomForestClassifier(20, random_state=1, n_jobs=2), X, y, cv=3).mean(), 0), y.max())`},
	}
}

func tables() map[string]question {
	return map[string]question{
		"a query with duckdb": {
			file: "sales.parquet", code: `
import duckdb, pandas as pd
sales = pd.DataFrame({"region": ["n", "s", "n"], "amount": [10, 20, 30]})
print(duckdb.sql("SELECT region, sum(amount)::INT AS total FROM sales GROUP BY region ORDER BY region").fetchall())
sales.to_csv("sales.csv", index=False)
duckdb.sql("COPY (SELECT * FROM 'sales.csv' WHERE amount > 10) TO 'sales.parquet' (FORMAT parquet)")
print(duckdb.sql("SELECT count(*) FROM 'sales.parquet'").fetchall())
print(duckdb.execute("SELECT json_extract('{\"a\": 5}', '$.a')::INT, date_trunc('month', DATE '2026-11-22')::DATE").fetchone())`,
			stdout: "[('n', 40), ('s', 20)]\n[(2,)]\n(5, datetime.date(2026, 11, 1))", again: `
import duckdb, pandas as pd
print(pd.read_parquet("sales.parquet").amount.tolist())
with duckdb.connect("own.duckdb") as base:
    base.execute("CREATE TABLE t AS SELECT range AS n FROM range(1000000)")
    print(base.sql("SELECT sum(n)::BIGINT FROM t").fetchall())
print(duckdb.sql("FROM 'sales.parquet' JOIN (SELECT 's' AS region, 'south' AS name) USING (region)").df().name.tolist())`, read: "[20, 30]\n[(499999500000,)]\n['south']",
		},
		"a table of text": {stdout: "| item   |   price |\n|--------|---------|\n| apples |      12 |\n|   a |\n|-----|\n|   1 |", code: `
from tabulate import tabulate
print(tabulate([["apples", 12]], headers=["item", "price"], tablefmt="github"))
import pandas as pd
print(pd.DataFrame({"a": [1]}).to_markdown(index=False, tablefmt="github"))`},
	}
}

func pages() map[string]question {
	return map[string]question{
		"a page that is read": {stdout: "Title ['/a'] 5\n[1, 2]\n['x']", code: `
from bs4 import BeautifulSoup
page = "<html><head><title>Title</title></head><body><a href='/a'>one</a><table><tr><th>n</th></tr><tr><td>1</td></tr><tr><td>2</td></tr></table>"
soup = BeautifulSoup(page, "lxml")
print(soup.title.string, [a["href"] for a in soup.select("a[href]")], len(soup.find_all(["a", "th", "td", "table"])))
import io, pandas as pd
print(pd.read_html(io.StringIO(page))[0].n.tolist())
from lxml import etree
print(etree.fromstring("<r><i k='x'/></r>").xpath("//i/@k"))`},
		"a program in TypeScript": {lang: "ts", file: "totals.json", code: `
import { writeFileSync } from "node:fs";
enum Region { North = "n", South = "s" }
interface Sale { region: Region; amount: number }
const sales: Sale[] = [{ region: Region.North, amount: 10 }, { region: Region.South, amount: 5 }, { region: Region.North, amount: 20 }];
const totals = Object.groupBy(sales, (sale) => sale.region) satisfies Partial<Record<Region, Sale[]>>;
writeFileSync("totals.json", JSON.stringify(Object.fromEntries(Object.entries(totals).map(([k, v]) => [k, v!.reduce((n, s) => n + s.amount, 0)]))));
console.log(await Promise.resolve("written" as const));`, stdout: "written", againLang: "typescript", again: `
import { readFileSync } from "node:fs";
const totals: Record<string, number> = JSON.parse(readFileSync("totals.json", "utf8"));
console.log(totals.n, totals.s);`, read: "30 5"},
		"archives": {lang: "bash", file: "out.zip", code: `
mkdir d && echo one > d/a.txt && zip -qr out.zip d && tar czf out.tgz d && rm -r d
unzip -p out.zip d/a.txt; tar xzOf out.tgz d/a.txt`, stdout: "one\none", again: `
import zipfile
print(zipfile.ZipFile("out.zip").read("d/a.txt"))`, read: `b'one\n'`},
	}
}
