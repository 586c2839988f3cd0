import { join } from "node:path";
import { SERVICES } from "../services.ts";
import { readVariables, type Variable } from "./read-variables.ts";

const ROOT = join(import.meta.dirname, "../../..");

const OPENING = `# Environment variables

For operators who configure a service: every variable that Muster's services and the command \`muster\` read, with its default. \`npm run reference\` generates
this page from the code.

An empty variable counts as absent. A service that finds a wrong variable names every problem in one message and exits with code 2. A variable without a
default is optional unless its meaning states otherwise. The chart takes variables of a service in \`services.NAME.env\`, and secret ones in
\`services.NAME.envSecret\`: [values of the chart](../../deploy/helm/muster/values.yaml).

Variables of other programs are in other places: [tracing and metrics](../tracing.md#variables) (\`OTEL_\`), [pods of sessions](../sessions.md#environment),
[members of jobs](../jobs.md), [docker compose](../compose.md).
`;

/** Returns the page docs/reference/environment.md. */
export function buildEnvironmentPage(): string {
  const shared = ["libs/service/src/run-service.ts", "libs/bus/src/nats-access.ts"].flatMap(listVariables);
  const services = [...SERVICES].toSorted().map((name) => section(name, listVariables(`apps/${name}/src/config.ts`)));
  const command = section("muster", listVariables("apps/cli/src/config.ts"));
  const note =
    "It also reads the other variables for access to NATS (`MUSTER_NATS_`, except `MUSTER_NATS_REPLICAS`) of [every service](#every-service).";
  return [OPENING, section("Every service", shared), ...services, `${command}\n${note}\n`].join("\n");
}

function listVariables(path: string): Variable[] {
  return readVariables(join(ROOT, path));
}

function section(title: string, variables: readonly Variable[]): string {
  const rows = variables.map(({ name, fallback = "none", values = "", meaning }) =>
    [`\`${name}\``, fallback, findUnit(name), values, linked(meaning)].join(" | "),
  );
  const table = ["variable | default | unit | values | meaning", "--- | --- | --- | --- | ---", ...rows];
  return `## ${title}\n\n${table.map((row) => `| ${row} |`).join("\n")}\n`;
}

/** The end of a name is its unit. */
function findUnit(name: string): string {
  const [, unit = ""] = /_(MS|BYTES|PERCENT)(?:_MAX)?$/.exec(name) ?? [];
  return { MS: "ms", BYTES: "bytes", PERCENT: "%" }[unit] ?? "";
}

/** Comments name pages from the root. */
function linked(meaning: string): string {
  return meaning.replaceAll(
    /\bdocs\/([\w-]+)\.md(#[\w-]+)?/g,
    (_, page: string, heading = "") => `[${page}](../${page}.md${String(heading)})`,
  );
}
