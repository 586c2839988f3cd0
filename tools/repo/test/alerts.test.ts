import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { metrics } from "@opentelemetry/api";
import { scrapeMetrics } from "@muster/testkit";
import { startTelemetry } from "@muster/tracing";
import { expect, it } from "vitest";
import { isPlanted } from "./planted.ts";
import { parse } from "yaml";

const ROOT = join(import.meta.dirname, "../../..");
const read = (path: string): Promise<string> => readFile(join(ROOT, path), "utf8");

/** Metrics that Muster's services do not export: the exporter's own, and the kubelet's about volumes. */
const FOREIGN = new Map([
  ["target_info", ["service_name"]],
  ["kubelet_volume_stats_available_bytes", ["persistentvolumeclaim"]],
  ["kubelet_volume_stats_capacity_bytes", ["persistentvolumeclaim"]],
]);
/** Labels that Prometheus and the exporter add to every series. */
const COMMON = ["instance", "job", "otel_scope_name"];

/** Conditions that must hold for a quarter of an hour: one event is not enough. */
const ENDURING = ["MusterListenersSlow"];

type Instrument = {
  readonly name: string;
  readonly kind: string;
  readonly unit: string;
  readonly description: string;
  readonly path: string;
  readonly file: string;
};
type Rule = { readonly alert: string; readonly expr: string; readonly annotations: { readonly summary: string } };

/** The name of an instrument's series in the exporter. */
function seriesOf({ name, kind }: Pick<Instrument, "name" | "kind">): string[] {
  const base = name.replaceAll(".", "_");
  if (kind === "Histogram") return ["count", "sum", "bucket"].map((part) => `${base}_${part}`);
  return [/^(?:Observable)?Counter$/.test(kind) ? `${base}_total` : base];
}

const INSTRUMENT = /\.create([A-Za-z]+)\(\s*"([a-z._]+)",\s*\{((?:"[^"]*"|[^"}])*)\}/g;

/** Each instrument in the source of services and libraries, with the file that sets its labels. */
async function instruments(): Promise<Instrument[]> {
  const found: Instrument[] = [];
  for (const area of ["apps", "libs"]) {
    const names = await readdir(join(ROOT, area), { recursive: true });
    const isSource = (name: string): boolean => /^[^/]+\/src\/.*(?<!\.test)\.ts$/.test(name) && !isPlanted(name);
    for (const name of names.filter(isSource)) {
      const path = join(area, name);
      const file = await read(path);
      for (const [, kind = "", instrument = "", options = ""] of file.matchAll(INSTRUMENT)) {
        const [, unit = ""] = /\bunit: "([^"]*)"/.exec(options) ?? [];
        const [, description = ""] = /\bdescription:\s*"([^"]*)"/.exec(options) ?? [];
        found.push({ name: instrument, kind, unit, description, path, file });
      }
    }
  }
  return found;
}

/** Series by name, each with the strings and property names of its file, which include its labels. */
async function exported(): Promise<ReadonlyMap<string, readonly string[]>> {
  const all = new Map<string, readonly string[]>(FOREIGN);
  for (const instrument of await instruments()) {
    const words = [...instrument.file.matchAll(/"([a-z][a-z._]*)"|\b([a-z]\w*)\b/g)].map(
      ([, quoted, bare]) => quoted ?? bare ?? "",
    );
    const labels = [...new Set(words.map((word) => word.replaceAll(".", "_")))];
    for (const series of seriesOf(instrument))
      all.set(series, [...labels, ...(series.endsWith("_bucket") ? ["le"] : [])]);
  }
  return all;
}

/** A vector match on the job only. */
const SCRAPED_BEFORE = / and on \(job\) muster_ready offset \w+/g;

/** The series of a PromQL expression, and its selected and grouping labels. */
function readExpression(expr: string): { readonly series: readonly string[]; readonly labels: readonly string[] } {
  const bare = expr.replaceAll(/"[^"]*"/g, '""').replaceAll(SCRAPED_BEFORE, "");
  const selected = [...bare.matchAll(/(\w+)\s*(?:=~|!~|!=|=)\s*""/g)].map(([, label = ""]) => label);
  const grouped = [...bare.matchAll(/\b(?:by|on|without)\s*\(([^)]*)\)/g)].flatMap(([, list = ""]) =>
    list.split(/\s*,\s*/),
  );
  const series = [...bare.matchAll(/\b[a-z]+(?:_[a-z0-9]+)+\b(?!\s*\()/g)].map(([name]) => name);
  const labels = [...selected, ...grouped];
  return { series: series.filter((name) => !labels.includes(name)), labels };
}

async function rules(): Promise<Rule[]> {
  const file = parse(await read("deploy/prometheus/rules.yaml")) as { groups: { rules: Rule[] }[] };
  return file.groups.flatMap((group) => group.rules);
}

async function expectExported(expr: string, known: ReadonlyMap<string, readonly string[]>): Promise<void> {
  const { series, labels } = readExpression(expr);
  expect(series, expr).not.toEqual([]);
  for (const name of series) {
    expect([...known.keys()], expr).toContain(name);
    for (const label of labels) expect([...(known.get(name) ?? []), ...COMMON], `${name} in ${expr}`).toContain(label);
  }
  return Promise.resolve();
}

it("names the series of an instrument like the exporter", async () => {
  const made: readonly Pick<Instrument, "name" | "kind">[] = [
    { name: "muster.a.b", kind: "Counter" },
    { name: "muster.some", kind: "UpDownCounter" },
    { name: "muster.time", kind: "Histogram" },
    { name: "kube.adds", kind: "ObservableCounter" },
    { name: "muster.now", kind: "ObservableGauge" },
  ];
  await using telemetry = await startTelemetry({ service: "demo", version: "0", env: {} });
  const meter = metrics.getMeter("test");
  meter.createCounter("muster.a.b").add(1);
  meter.createUpDownCounter("muster.some").add(1);
  meter.createHistogram("muster.time", { unit: "ms" }).record(1);
  meter.createObservableCounter("kube.adds").addCallback((result) => {
    result.observe(1);
  });
  meter.createObservableGauge("muster.now", { unit: "s" }).addCallback((result) => {
    result.observe(1);
  });
  const text = await scrapeMetrics(telemetry);
  const scraped = new Set([...text.matchAll(/^(\w+)\{/gm)].map(([, name]) => name));
  scraped.delete("target_info");
  expect([...scraped].toSorted()).toEqual(made.flatMap(seriesOf).toSorted());
});

it("has alerts on exported metrics and labels only, each with a section of instructions", async () => {
  const known = await exported();
  const sections = [...(await read("docs/operations/alerts.md")).matchAll(/^## (\w+)$/gm)].map(([, name]) => name);
  const alerts = await rules();
  expect(sections).toEqual(alerts.map(({ alert }) => alert));
  for (const { expr, annotations } of alerts) {
    await expectExported(expr, known);
    const shown = [...annotations.summary.matchAll(/\$labels\.(\w+)/g)].map(([, label]) => label);
    expect(
      expr.includes("absent(") ||
        shown.every(
          (label) =>
            label !== undefined && (label === "instance" || label === "muster_ready_check" || expr.includes(label)),
        ),
      annotations.summary,
    ).toBe(true);
  }
});

it("alerts on the first event of a process where one event is enough, and on none from before the first scrape", async () => {
  const every = (await rules()).filter(({ alert }) => !ENDURING.includes(alert));
  const single = every.flatMap(({ expr }) =>
    [...expr.matchAll(/increase\(([^[]+)\[(\w+)\]\)\) > 0(?!\.)/g)].map((found) => ({ expr, found })),
  );
  expect(single.length).toBeGreaterThan(4);
  for (const { expr, found } of single) {
    const [, series = "", window = ""] = found;
    expect(expr).toContain(
      `((${series} unless ${series} offset ${window}) and on (job) muster_ready offset ${window}) > 0`,
    );
  }
});

it("shows only exported metrics on the dashboard", async () => {
  const known = await exported();
  const text = await read("deploy/dashboards/muster.json");
  const { panels } = JSON.parse(text) as { panels: { title: string; targets?: { expr: string }[] }[] };
  const shown = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
  expect(shown.length).toBeGreaterThan(10);
  for (const expr of shown) await expectExported(expr, known);
});

it("names only exported metrics in docs/operations.md", async () => {
  const known = await exported();
  const table = (await read("docs/operations.md")).split("## What to watch")[1]?.split("\n## ")[0] ?? "";
  const named = [...table.matchAll(/`((?:muster|kube|db|http)_\w+)/g)].map(([, name = ""]) => name);
  expect(named.length).toBeGreaterThan(10);
  for (const name of named) expect([...known.keys()]).toContain(name);
});

it("names instruments and attributes as OpenTelemetry does: dotted, in the namespace of Muster, each with its unit and meaning", async () => {
  for (const { name, kind, unit, description, file } of await instruments()) {
    expect(name).toMatch(
      /^(?:muster(?:\.[a-z]+(?:_[a-z]+)*){1,4}|db\.client\.operation\.duration|http\.server\.request\.duration)$/,
    );
    expect(unit, name).toMatch(kind === "Histogram" ? /^s$/ : /^(?:s|By|1|\{[a-z]+\})$/);
    expect(description, name).toMatch(/^[A-Z1].*[^.]$/);
    expect(
      file.match(/\.(?:add|record|observe)\([^;]*\{ \w+[:,} ]/g),
      `attributes without a namespace of ${name}`,
    ).toBeNull();
  }
});

it("lists every instrument in the reference", async () => {
  const rows = (await instruments()).map(({ name, kind, unit, description }) => {
    const [series = ""] = seriesOf({ name, kind });
    return `| \`${name}\` | \`${series.replace(/_count$/, "_bucket")}\` | ${unit} | ${description} |`;
  });
  const page = await read("docs/reference/metrics.md");
  const listed = page.split("\n").filter((line) => line.startsWith("| `"));
  expect(listed.map((line) => line.replaceAll(/ +/g, " ")).toSorted()).toEqual(rows.toSorted());
});
