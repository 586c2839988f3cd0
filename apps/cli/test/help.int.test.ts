import { expect, it } from "vitest";
import { RESOURCES } from "../src/kinds/resources.ts";
import { listCommandRows } from "../src/program.ts";
import type { CommandRow } from "../src/program/command-row.ts";
import { inProcess } from "./in-process.ts";

const world = { url: "nats://127.0.0.1:1", token: "" };
const COMMANDS = ["", ...namesOf(listCommandRows(RESOURCES), "")];

/** Returns the names of all commands that help shows: `dead-letters list`. */
function namesOf(rows: readonly CommandRow[], parent: string): string[] {
  return rows
    .filter(({ description }) => description !== undefined)
    .flatMap(({ name, commands = [] }) => [parent + name, ...namesOf(commands, `${parent}${name} `)]);
}

it.each(COMMANDS)("muster %s --help fits into 80 columns and calls no service", async (command) => {
  const { code, out, err } = await inProcess([...command.split(" "), "--help"].filter(Boolean), world);
  const lines = out.join("\n").split("\n");
  expect(lines[0]).toMatch(/^Usage: muster/);
  expect(lines.filter((line) => line.length > 80)).toEqual([]);
  expect(err).toEqual([]);
  expect(code).toBe(0);
});

it("lists every command", async () => {
  const { out } = await inProcess(["--help"], world);
  const listed = [...out.join("\n").matchAll(/^ {2}([a-z][a-z-]+)[ |]/gm)].map(([, name]) => name);
  expect(listed).toEqual([...COMMANDS.filter((name) => /^[^ ]+$/.test(name)), "help"]);
});

const HAVE_EXAMPLES = COMMANDS.filter((command) => command !== "" && !/^dead-letters /.test(command));

it.each(HAVE_EXAMPLES)("muster %s --help has examples", async (command) => {
  const { out } = await inProcess([...command.split(" "), "--help"], world);
  expect(out.join("\n")).toContain(`Examples:\n  `);
});

it.each(["run", "get", "describe", "cancel", "logs", "explain", "events", "wait"])(
  "muster %s --help has an example with a job",
  async (command) => {
    const { out } = await inProcess([command, "--help"], world);
    expect(out.join("\n").split("Examples:")[1]).toMatch(new RegExp(`muster ${command} .*job`));
  },
);

it.each(["get", "describe", "explain", "wait"])(
  "muster %s --help has an example with a replica set",
  async (command) => {
    const { out } = await inProcess([command, "--help"], world);
    expect(out.join("\n").split("Examples:")[1]).toMatch(new RegExp(`muster ${command} .*(?:rs|replica-set)`));
  },
);

it.each<[line: string, hint: RegExp]>([
  ["edit rs web", /muster apply -f FILE/],
  ["drain node-1 --force", /kubectl cordon/],
  ["rollout restart web", /muster apply -f FILE --replace/],
  ["rollout history web", /muster audit/],
  ["delete job/train", /muster cancel job\/train.* over, `kubectl delete jobs\.muster\.dev train`/],
  ["delete tfjob train", /muster cancel tfjob\/train.* over, `kubectl delete tfjobs\.kubeflow\.org train`/],
  ["get nodes", /`muster nodes` lists/],
  ["get node node-1", /`muster nodes` lists/],
  ["describe pod web-0", /`kubectl get pods` lists/],
  ["get tables", /one of sessions, jobs, [^]*pools, reservations\.$/m],
  ["delete session/echo --force", /--force and --orphan are for replica sets/],
  ["delete session/echo --cascade orphan", /--force and --orphan are for replica sets/],
  ["delete session", /the name of the session is missing/],
])("muster %s, a word of kubectl, names the corresponding command", async (line, hint) => {
  const { code, err } = await inProcess(line.split(" "), world);
  expect(err.join("\n")).toMatch(hint);
  expect(code).toBe(2);
});
