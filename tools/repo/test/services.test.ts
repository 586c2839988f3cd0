import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { NATS_USERS } from "@muster/nats-server";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { buildChartSchema, listVariables } from "../chart-schema.ts";
import { OPTIONAL, SERVICES, STANDARD } from "../services.ts";

const ROOT = join(import.meta.dirname, "../../..");
const read = (path: string): Promise<string> => readFile(join(ROOT, path), "utf8");
const all = (text: string, pattern: RegExp): string[] => [...text.matchAll(pattern)].map(([, name = ""]) => name);
const keysOf = (value: unknown): string[] => Object.keys(value as object);
/** Images that are not services. */
const HELPERS = ["setup", "dev-cluster"];
/** Apps that are not services. */
const PROGRAMS = ["cli", "console"];

type Place = {
  /** The service names in the file. */
  readonly names: (text: string) => readonly string[];
  /** The expected services; default: all. */
  readonly expected?: readonly string[];
};

/** Files that repeat the names of services, because they are not TypeScript. */
const PLACES: Readonly<Record<string, Place>> = {
  "docker-compose.yml": {
    names: (text) => all(text, /^ {4}image: muster\/([a-z-]+):/gm).filter((name) => !HELPERS.includes(name)),
  },
  "deploy/prometheus/compose.yaml": {
    names: (text) =>
      (parse(text) as { scrape_configs: { dns_sd_configs: { names: string[] }[] }[] }).scrape_configs.flatMap((job) =>
        job.dns_sd_configs.flatMap(({ names }) => names),
      ),
  },
  "deploy/prometheus/rules.yaml": {
    names: (text) => all(text, /absent\(target_info\{service_name="([a-z-]+)"/g),
    expected: STANDARD,
  },
  "deploy/helm/muster/values.yaml": { names: (text) => keysOf((parse(text) as { services: object }).services) },
  ".ci/e2e": { names: (text) => (/^services='([^']*)'/m.exec(text)?.[1] ?? "").split(" "), expected: STANDARD },
  "docs/ARCHITECTURE.md": {
    names: (text) => all(text, /^\| \[([a-z-]+)\]\(\.\.\/apps/gm).filter((name) => !PROGRAMS.includes(name)),
  },
};

it.each(Object.entries(PLACES))("are those of the list in %s", async (path, { names, expected = SERVICES }) => {
  expect([...names(await read(path))].toSorted()).toEqual([...expected].toSorted());
});

it("have their own volume in docker-compose.yml, which only setup and the service mount", async () => {
  const text = await read("docker-compose.yml");
  const { services, volumes } = parse(text, { merge: true }) as {
    services: Readonly<Record<string, { volumes?: readonly string[] }>>;
    volumes: object;
  };
  const keys = SERVICES.map((name) => `key-${name}`);
  expect(
    keysOf(volumes)
      .filter((name) => name.startsWith("key-"))
      .toSorted(),
  ).toEqual(keys.toSorted());
  const filled = services["setup"]?.volumes?.filter((volume) => volume.startsWith("key-")) ?? [];
  expect(filled.toSorted()).toEqual(SERVICES.map((name) => `key-${name}:/setup/keys/${name}`).toSorted());
  for (const name of SERVICES) {
    const own = services[name]?.volumes?.filter((volume) => volume.startsWith("key-"));
    expect(own, name).toEqual([`key-${name}:/var/run/muster:ro`]);
  }
});

it("have an app, a user of NATS, and an account in Kubernetes", async () => {
  const apps = await readdir(join(ROOT, "apps"));
  expect(apps.filter((name) => !PROGRAMS.includes(name)).toSorted()).toEqual([...SERVICES].toSorted());
  const people = ["cli", "backup"];
  expect(NATS_USERS.filter((user) => !people.includes(user)).toSorted()).toEqual([...SERVICES].toSorted());
  for (const name of SERVICES) {
    const text = await read(`deploy/kubernetes/${name}.yaml`);
    expect(text, name).toMatch(new RegExp(`kind: ServiceAccount\nmetadata:\n  name: ${name}$`, "m"));
  }
  expect([...STANDARD, OPTIONAL].toSorted()).toEqual([...SERVICES].toSorted());
});

it("speak HTTP to people and programs only in the gateway; the others have only the status server", async () => {
  const folders = [...SERVICES.map((name) => `apps/${name}/src`), "libs"];
  const found: string[] = [];
  for (const folder of folders)
    for (const name of await readdir(join(ROOT, folder), { recursive: true })) {
      const path = join(folder, name);
      if (!name.endsWith(".ts") || /\.test\.ts$|\/(test|bench|node_modules|generated)\/|^libs\/testkit\//.test(path))
        continue;
      if (/\b(create(Secure)?Server|fastify)\(/.test(await read(path))) found.push(path);
    }
  expect(found.toSorted()).toEqual(["apps/gateway/src/adapters/open-server.ts", "libs/service/src/status-server.ts"]);
});

it("accept from the chart exactly the variables that they read, and no secret", async () => {
  const schema = JSON.parse(await read("deploy/helm/muster/values.schema.json")) as Parameters<
    typeof buildChartSchema
  >[0];
  expect(schema, "npm run chart-schema").toEqual(await buildChartSchema(schema));
  for (const name of SERVICES) {
    const variables = await listVariables(name);
    expect(variables.length, name).toBeGreaterThan(3);
    expect(variables.filter((each) => /MUSTER|KEY$|TOKEN$/.test(each))).toEqual([]);
  }
  expect(await listVariables("watcher")).toContain("WATCHER_RELIST_MS");
});

it("have a checklist that names each file to change for a new service", async () => {
  const checklist = await read("docs/checklists/new-app.md");
  const others = [
    "libs/proto/src/service-names.ts",
    "libs/nats-server/src/rights.ts",
    "deploy/kubernetes",
    "tools/local/test/rights.int.test.ts",
  ];
  for (const path of [...Object.keys(PLACES), ...others]) expect(checklist, path).toContain(`\`${path}\``);
});
