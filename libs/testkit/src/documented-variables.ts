import { readFileSync } from "node:fs";

const PAGE = new URL("../../../docs/reference/environment.md", import.meta.url);
const NATS = /^MUSTER_NATS_(?!REPLICAS)/;

/** The variables that a service's `readConfig` reads, by docs/reference/environment.md, with their defaults. */
export function readDocumentedVariables(service: string): ReadonlyMap<string, string | undefined> {
  const shared = [...rowsOf("Every service")].filter(([name]) => NATS.test(name));
  return new Map([...shared, ...rowsOf(service)]);
}

function rowsOf(section: string): ReadonlyMap<string, string | undefined> {
  const [, after = ""] = readFileSync(PAGE, "utf8").split(`\n## ${section}\n`);
  const [table = ""] = after.split("\n## ");
  const rows = table.matchAll(/^\| `([A-Z_]+)` +\| (?:`([^`]*)`|[^|]*) *\|/gm);
  return new Map([...rows].map(([, name = "", fallback]) => [name, fallback]));
}

/** An environment that records the variables that were read. */
export function makeRecordingEnv(values: Readonly<Record<string, string>> = {}): {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly names: ReadonlySet<string>;
} {
  const names = new Set<string>();
  const get = (target: Readonly<Record<string, string>>, name: string | symbol): string | undefined => {
    names.add(String(name));
    return target[String(name)];
  };
  return { env: new Proxy<Readonly<Record<string, string>>>(values, { get }), names };
}
