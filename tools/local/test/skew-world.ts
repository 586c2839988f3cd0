import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { STANDARD, type ServiceName } from "@muster/repo/services";
import { findFreePort, until } from "@muster/testkit";
import { expect } from "vitest";
import { ROOT } from "../src/root.ts";
import type { BaselinePrograms } from "./baseline-programs.ts";
import { runMuster } from "./muster-run.ts";
import { startWorld, type World } from "./stack-world.ts";

const PATIENT = { timeoutMs: 120_000, everyMs: 50 };
/** Room for short work of each kind beside the work that lasts. */
const POOLS = { workers: 7, drivers: 3, sets: 2 };

/** Runs a command line, which must exit with 0; returns its output. */
export type Command = (line: string) => Promise<string>;

/** A world whose services and commands are of either version. */
export type Skew = AsyncDisposable & {
  readonly world: World;
  /** Exit reasons of services that no test killed. */
  readonly crashes: readonly string[];
  /** Kills the service with -9, and starts that of the other version. */
  readonly replace: (service: ServiceName, by: "old" | "new") => Promise<void>;
  readonly oldCli: Command;
  readonly newCli: Command;
  /** Writes documents into a file, and returns its path. */
  readonly fileOf: (name: string, documents: readonly object[]) => Promise<string>;
  readonly touch: (name: string) => Promise<void>;
  readonly path: (name: string) => string;
};

/** Starts a world whose services are those of the last release where it has them. */
export async function startSkew(old: BaselinePrograms): Promise<Skew> {
  await using starting = new AsyncDisposableStack();
  const directory = starting.use(await mkdtempDisposable(join(tmpdir(), "muster-skew-"))).path;
  const versions = new Map<ServiceName, "old" | "new">(
    STANDARD.map((service) => [service, old.has(service) ? "old" : "new"]),
  );
  const crashes: string[] = [];
  const killed = new Set<string>();
  const world = starting.use(
    await startWorld({
      pools: POOLS,
      apiAddress: `127.0.0.1:${await findFreePort()}`,
      env: { SESSION_EXECUTORS: "4" },
      programOf: (service) =>
        versions.get(service) === "old" ? old.programOf(service) : join(ROOT, `apps/${service}/src/main.ts`),
      onProgress: (line) => {
        const [, name = "", how] = /^(\S+) ended \((.*?)\) and restarts/.exec(line) ?? [];
        if (how !== undefined && !killed.delete(name)) crashes.push(line);
      },
    }),
  );
  const cli =
    (program?: string): Command =>
    async (line) => {
      const { code, output } = await runMuster(
        { stack: world.stack, ...(program !== undefined && { program }) },
        line.split(" "),
      );
      expect(code, `${program === undefined ? "new" : "old"} muster ${line}: ${output}`).toBe(0);
      return output;
    };
  const path = (name: string): string => join(directory, name);
  const all = starting.move();
  return {
    world,
    crashes,
    replace: async (service, by) => {
      versions.set(service, by);
      const replica = world.stack.replicas.find((each) => each.service === service);
      if (replica === undefined) throw new Error(`the stack has no ${service}`);
      killed.add(`${service}-0`);
      await replica.kill(0);
      await until(
        `the ${by} ${service} is ready`,
        async () => (await fetch(`http://${replica.address()}/readyz`)).ok,
        PATIENT,
      );
    },
    oldCli: cli(old.programOf("cli")),
    newCli: cli(),
    fileOf: async (name, documents) => {
      await writeFile(path(name), documents.map((document) => JSON.stringify(document)).join("\n---\n"));
      return path(name);
    },
    touch: (name) => writeFile(path(name), ""),
    path,
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}
