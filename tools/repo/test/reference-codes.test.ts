import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";

const ROOT = join(import.meta.dirname, "../../..");
const APPS = {
  sessions: "apps/session-controller/src/domain",
  jobs: "apps/job-controller/src/domain",
  sets: "apps/replication-farm/src/domain",
  leases: "apps/provision-engine/src/domain",
  nodes: "apps/node-scaler/src/domain",
};

const read = (path: string): Promise<string> => readFile(join(ROOT, path), "utf8");
const all = (text: string, pattern: RegExp): string[] => [...text.matchAll(pattern)].map(([, found = ""]) => found);
const quoted = (text: string): string[] => all(text, /"([A-Za-z][\w-]*)"/g);

/** Reads the words of a union of string literals. */
async function unionOf(path: string, type: string): Promise<string[]> {
  const [, declared = ""] = new RegExp(`type ${type} =([^;{]*);`).exec(await read(path)) ?? [];
  return quoted(declared);
}

/** Reads the words of a constant list. */
async function listOf(path: string, name: string): Promise<string[]> {
  const [, declared = ""] = new RegExp(`${name} = \\[([^\\]]*)\\]`).exec(await read(path)) ?? [];
  return quoted(declared);
}

/** The codes of the reasons that functions of a file build. */
async function reasonsOf(path: string): Promise<string[]> {
  const built = all(await read(path), /(?:\bbuildReason\(|\bcode(?::| =(?!=)))\s*([^,;\n]*)/g);
  return built.flatMap((text) => all(text, /"([A-Z][A-Z_]+)"/g));
}

async function reasonsOfOutcomes(): Promise<string[]> {
  const files = ["decide-pod-failure", "decide-outcome", "plan-job"].map((name) => read(`${APPS.jobs}/${name}.ts`));
  const failed = /(?:kind: "failed", |action: "fail-job",\s*)reason: "(\w+)"/g;
  return (await Promise.all(files)).flatMap((text) => all(text, failed));
}

async function restartsOf(): Promise<string[]> {
  const verdicts = all(await read(`${APPS.jobs}/decide-pod-failure.ts`), /counts: \w+, because: "([\w-]+)"/g);
  return [...verdicts, ...(await listOf(`${APPS.jobs}/job-status.ts`, "UNCOUNTED_REASONS"))];
}

async function ledgerReasons(): Promise<string[]> {
  const fit = "apps/reservation-manager/src/domain/decisions/fit.ts";
  const waits = ["CONCURRENCY_LIMIT", ...(await unionOf(fit, "MachineCode"))];
  const advised = all(await read("libs/ledger-client/src/explanation.ts"), /code === "([A-Z_]+)"/g);
  const asked = ["explanation", "ask-machines"].map((name) => reasonsOf(`libs/ledger-client/src/${name}.ts`));
  return [...waits, ...advised, ...(await Promise.all(asked)).flat()];
}

async function poolTroubles(): Promise<string[]> {
  const [, declared = ""] = /readonly code:([^;]*);/.exec(await read(`${APPS.nodes}/build-pool-troubles.ts`)) ?? [];
  return quoted(declared);
}

/** The section of docs/reference/waits-and-reasons.md, and its codes in the code. */
const SECTIONS: Readonly<Record<string, () => Promise<string[]>>> = {
  "Requests for machines": ledgerReasons,
  "Nodes that are not granted": () =>
    unionOf("apps/reservation-manager/src/domain/ledger/machines.ts", "UnusableReason"),
  "Demand for nodes of elastic pools": () => unionOf(`${APPS.nodes}/describe-waits.ts`, "WaitCode"),
  "Troubles of elastic pools": poolTroubles,
  "Ends of nodes": () => unionOf(`${APPS.nodes}/node.ts`, "TerminationCode"),
  "Phases of sessions": () => reasonsOf(`${APPS.sessions}/explain-session.ts`),
  "Ends of sessions": () => listOf(`${APPS.sessions}/session.ts`, "TERMINAL_KINDS"),
  "Reasons of failed sessions": () => listOf(`${APPS.sessions}/session.ts`, "END_REASONS"),
  "Warnings of sessions": () => listOf(`${APPS.sessions}/session.ts`, "WARNING_CODES"),
  "Phases of jobs": () => reasonsOf(`${APPS.jobs}/explain-job.ts`),
  "Work of Kubernetes in queues": () => reasonsOf(`${APPS.jobs}/batch/explain-batch-job.ts`),
  "Failures of jobs": reasonsOfOutcomes,
  "Restarts of members": restartsOf,
  "Deletions of pods of jobs": () => unionOf(`${APPS.jobs}/plan-steps.ts`, "DeleteReason"),
  "Phases of replica sets": () => reasonsOf(`${APPS.sets}/explain-set.ts`),
  "Troubles of replica sets": () => listOf(`${APPS.sets}/troubles.ts`, "TROUBLES"),
  "Nodes of replica sets": () => listOf(`${APPS.sets}/explain-nodes.ts`, "CODES"),
  "Changes of replica sets": () => unionOf(`${APPS.sets}/set-plan.ts`, "SetChangeReason"),
  "Phases of leases": () => reasonsOf(`${APPS.leases}/explain-lease.ts`),
  "Ends of leases": () => listOf(`${APPS.leases}/lease.ts`, "ENDING_CAUSES"),
};

type Row = { readonly code: string; readonly cells: readonly string[] };

/** The rows of each section of a page, by heading. */
async function tablesOf(page: string): Promise<ReadonlyMap<string, readonly Row[]>> {
  const [, ...sections] = (await read(page)).split(/^## /m);
  return new Map(
    sections.map((section) => {
      const rows = section.split("\n").flatMap((line) => {
        const [, code] = /^\| `([^`]+)`/.exec(line) ?? [];
        return code === undefined ? [] : [{ code, cells: line.split("|").slice(1, -1) }];
      });
      return [section.split("\n")[0] ?? "", rows];
    }),
  );
}

const waits = await tablesOf("docs/reference/waits-and-reasons.md");

it("has the sections of docs/reference/waits-and-reasons.md", () => {
  expect([...waits.keys()]).toEqual(Object.keys(SECTIONS));
});

it.each(Object.entries(SECTIONS))("has exactly the codes of the code in %s", async (section, codes) => {
  const known = [...new Set(await codes())];
  expect(known.length).toBeGreaterThan(3);
  expect((waits.get(section) ?? []).map(({ code }) => code).toSorted()).toEqual(known.toSorted());
});

it("lists troubles of sets in their order", async () => {
  const listed = waits.get("Troubles of replica sets")?.map(({ code }) => code);
  expect(listed).toEqual(await listOf(`${APPS.sets}/troubles.ts`, "TROUBLES"));
});

it("names for each code a function that exists, in a file that has the code", async () => {
  for (const { code, cells } of [...waits.values()].flat()) {
    const links = [...(cells.at(-1) ?? "").matchAll(/\[`(\w+)`\]\(\.\.\/\.\.\/([^)]+)\)/g)];
    expect(links, code).not.toEqual([]);
    for (const [, name = "", path = ""] of links) {
      const text = await read(path);
      expect(text, code).toMatch(new RegExp(`function\\*? ${name}\\b`));
      const isNamed = text.includes(`"${code}"`) || text.includes(`"${code.toLowerCase()}"`);
      expect(isNamed, `${code} in ${path}`).toBe(true);
    }
  }
});

const conditions = await tablesOf("docs/reference/conditions.md");
const codesIn = (section: string): string[] => (conditions.get(section) ?? []).map(({ code }) => code);

/** The source of the job-controller, without tests. */
async function sourceOfJobs(): Promise<string> {
  const names = await readdir(join(ROOT, "apps/job-controller/src"), { recursive: true });
  const sources = names.filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts"));
  return (await Promise.all(sources.map((name) => read(`apps/job-controller/src/${name}`)))).join("\n");
}

it("has exactly the conditions of jobs, with the reasons that the controller sets", async () => {
  const types = await listOf(`${APPS.jobs}/job-status.ts`, "CONDITION_TYPES");
  expect(codesIn("Conditions of jobs")).toEqual(types);
  const source = await sourceOfJobs();
  const set = [...source.matchAll(/type: "(\w+)", status: "(?:True|False)", reason: "(\w+)"/g)];
  const ofGrants = all(source, /(?:return|const change =) \{ reason: "(\w+)", message/g).map((reason) => [
    "",
    "MachinesReserved",
    reason,
  ]);
  const known = [...set, ...ofGrants].map(([, type = "", reason = ""]) => `${type} ${reason}`);
  const shown = (conditions.get("Conditions of jobs") ?? []).flatMap(({ code, cells }) =>
    all(cells[1] ?? "", /`(\w+)`/g).map((reason) => `${code} ${reason}`),
  );
  expect(shown.toSorted()).toEqual([...new Set(known)].toSorted());
});

it("has exactly the reasons of the conditions of queues", async () => {
  const source = await read(`${APPS.jobs}/queues/describe-queue.ts`);
  const known = all(source, /(?:\bno\(|\bblocked\(|\breason: |\bcase )\s*"([A-Z_]+)"/g);
  const listed = (conditions.get("Conditions of queues") ?? []).flatMap(({ cells }) => all(cells[1] ?? "", /`(\w+)`/g));
  expect([...new Set(listed)].toSorted()).toEqual([...new Set(known)].toSorted());
});

it("has exactly the reasons of events of jobs that are no conditions", async () => {
  const source = await sourceOfJobs();
  const reported = all(
    source,
    /\b(?:report|recordEvent|warn|reportFailure)\((?:job, |members\.)?(?:report, |"\w+", )?["`](?!Warning|Normal)([A-Z]\w+(?:\$\{[^}]*\})?)["`],/g,
  );
  const recorded = all(source, /type: "Warning",\s*reason: "(\w+)"/g);
  const templates = [...reported, ...recorded].map((reason) => reason.replace(/\$\{[^}]*\}$/, "KIND"));
  expect(codesIn("Events of jobs").toSorted()).toEqual([...new Set(templates)].toSorted());
});

it("has exactly the events of sessions and of replica sets", async () => {
  const ended = await listOf(`${APPS.sessions}/session.ts`, "TERMINAL_KINDS");
  expect(codesIn("Events of sessions")).toEqual([
    ...(await unionOf(`${APPS.sessions}/session.ts`, "EventKind")),
    ...ended,
  ]);
  const audits = await listOf("apps/replication-farm/src/domain/replica-set.ts", "AUDIT_EVENTS");
  expect(codesIn("Audit events of replica sets")).toEqual(audits);
});

it("has exactly the conditions that `muster wait` takes", async () => {
  const cli = "apps/cli/src/domain";
  const [, jobs = ""] = /JOB_CONDITIONS = \[([^]*?)\n\];/.exec(await read(`${cli}/job-phases.ts`)) ?? [];
  const known = [
    await listOf(`${cli}/session-phases.ts`, "PHASES"),
    quoted(jobs),
    await listOf(`${cli}/decide-set-wait.ts`, "SET_CONDITIONS"),
    await listOf(`${cli}/decide-set-wait.ts`, "ROLL_CONDITIONS"),
    await listOf(`${cli}/lease.ts`, "LEASE_PHASES"),
  ];
  const [, section = ""] = (await read("docs/reference/conditions.md")).split("## Conditions for `muster wait`");
  const rows = all(section, /^\| (?!of |-)[a-z ]+\| (`[^|]*)\|/gm).map((cell) => all(cell, /`(\w+)`/g));
  expect(rows).toEqual(known);
});
