import { execFileSync } from "node:child_process";
import { readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { makeNkey } from "@muster/nats-server";
import { SERVICES } from "@muster/repo/services";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ROOT } from "../src/root.ts";
import { prepareComposeStack, type ComposeStack, describeMissingContainers } from "./containers.ts";
import { type Ended, runMuster } from "./muster-run.ts";
import { listLinesWith, listKubeconfigSecrets } from "./quiet-logs.ts";

const TAG = process.env["MUSTER_TAG"] ?? "dev";
const lack = describeMissingContainers([
  ...["setup", "dev-cluster", ...SERVICES].map((name) => `muster/${name}:${TAG}`),
  "nats:2.15-alpine",
  "jaegertracing/all-in-one:1.62.0",
]);
const IN_A_SESSION = ["muster", "session-controller", "reservation-manager"];
const PATIENT = { timeoutMs: 180_000, everyMs: 250 };

/** A session whose driver succeeds once a file exists. */
const HELD = (name: string): string => `
apiVersion: muster.dev/v1
kind: Session
metadata: { name: ${name} }
spec:
  timeout: 10m
  ttl: 1h
  components:
    - name: driver
      kind: driver
      pool: drivers
      image: node:24-bookworm-slim
      command: [node, --eval]
      args: ['setInterval(() => require("node:fs").existsSync("/tmp/${name}") && process.exit(0), 100)']
`;

describe.skipIf(lack !== undefined)(
  `docker-compose.yml${lack === undefined ? "" : ` (skipped: ${lack})`}`,
  { timeout: 400_000 },
  () => {
    let stack: ComposeStack;
    const wrong = makeNkey();
    const run = (...args: readonly string[]): Promise<Ended> => runMuster({ stack }, args);
    const done = async (...args: readonly string[]): Promise<string> => {
      const { code, output } = await run(...args);
      expect(code, `muster ${args.join(" ")}: ${output}`).toBe(0);
      return output;
    };
    const example = (name: string): string => join(ROOT, "examples", name);
    const up = (): Promise<string> => stack.compose("up", "--wait", "--no-build", "--no-recreate", "--pull", "never");
    const inspect = async (service: string, format: string): Promise<string> => {
      const [id = ""] = (await stack.compose("ps", "--all", "--quiet", service)).trim().split("\n");
      return execFileSync("docker", ["inspect", "--format", format, id], { encoding: "utf8" }).trim();
    };

    beforeAll(async () => {
      stack = await prepareComposeStack();
      // On a busy machine the engine may restart a container, which ends the wait of compose but not this one.
      await until("all containers are healthy", up, { timeoutMs: 300_000 }).catch(async (error: unknown) => {
        throw new Error(await stack.compose("logs", "--tail", "20"), { cause: error });
      });
    }, 400_000);
    afterAll(() => stack[Symbol.asyncDispose](), 120_000);

    it("serves the HTTP API to the owner of the token that only its user can read", async () => {
      const file = join(stack.directory, "gateway.token");
      expect((await stat(file)).mode & 0o077).toBe(0);
      const pools = (token: string) =>
        fetch(`${stack.gatewayUrl}/v1/pools`, { headers: { authorization: `Bearer ${token}` } });
      expect((await pools("unknown")).status).toBe(401);
      const answer = await pools((await readFile(file, "utf8")).trim());
      expect(answer.status).toBe(200);
    });

    it("authenticates the command line by a key that only its user can read, and each service by a key of its own", async () => {
      expect((await stat(join(stack.directory, "cli.nk"))).mode & 0o077).toBe(0);
      const seeds = await Promise.all(
        SERVICES.map((name) => stack.compose("exec", "-T", name, "cat", "/var/run/muster/nats.nk")),
      );
      const all = [...seeds, await readFile(join(stack.directory, "cli.nk"), "utf8")];
      expect(new Set(all).size).toBe(SERVICES.length + 1);
      const healthy = await Promise.all(SERVICES.map((name) => inspect(name, "{{.State.Health.Status}}")));
      expect(new Set(healthy)).toEqual(new Set(["healthy"]));
    });

    it("runs a session whose single trace in Jaeger has spans of every service involved", async () => {
      expect(await done("run", example("http-benchmark.yaml"))).toContain("requestsPerSecond");
      const query = "/api/traces?service=muster&limit=20&lookback=1h";
      await until(
        "a trace has a span of each service",
        async () => {
          const { data } = (await (await fetch(stack.jaegerUrl + query)).json()) as JaegerTraces;
          const found = data.filter(({ spans }) => spans.some(({ operationName }) => operationName === "muster run"));
          const services = found.map(
            ({ processes }) => new Set(Object.values(processes).map((each) => each.serviceName)),
          );
          return services.some((names) => IN_A_SESSION.every((name) => names.has(name)));
        },
        PATIENT,
      );
    });

    it("runs a job, a replica set and a lease to completion", async () => {
      await done("run", example("training-job.yaml"));
      await done("apply", "-f", example("pinned-replica-set.yaml"), "--wait");
      await done("delete", "web", "--force", "--wait");
      const key = join(stack.directory, "lease.key");
      await done("keys", "new", "--key-file", key);
      const ordered = await done("lease", "order", "-f", example("leases/machine.yaml"), "--key-file", key, "--wait");
      const id = /lease\/(\S+) ordered/.exec(ordered)?.[1] ?? "";
      await done("lease", "end", id, "--key-file", key, "--wait");
    });

    it("continues a session while NATS, and then the container of every service, is restarted", async () => {
      const file = join(stack.directory, "held.yaml");
      await writeFile(file, HELD("held"));
      const ended = run("run", file);
      await until("the driver runs", async () => (await run("get", "session", "held")).output.includes("RUN"), PATIENT);
      await stack.compose("restart", "nats");
      for (const service of SERVICES) await stack.compose("restart", service);
      await until("all containers are healthy again", up, PATIENT);
      await stack.compose("exec", "-T", "dev-cluster", "touch", "/tmp/held");
      const { code, output } = await ended;
      expect(code, output).toBe(0);
    });

    it("lets a service log that its key is wrong, wait, and continue once it is right", async () => {
      const write = "require('node:fs').writeFileSync('/setup/keys/watcher/nats.nk', process.argv[1])";
      await stack.compose("run", "--rm", "-T", "--entrypoint", "node", "setup", "--eval", write, wrong.seed);
      await stack.compose("restart", "watcher");
      const logs = (): Promise<string> => stack.compose("logs", "--no-log-prefix", "--tail", "100", "watcher");
      const refusals = async (): Promise<number[]> =>
        [...(await logs()).matchAll(/"retryInMs":(\d+).*"NATS refuses this service"/g)].map(([, ms]) => Number(ms));
      const waits = await until(
        "the service has logged it twice",
        async () => {
          const found = await refusals();
          return found.length >= 2 ? found : undefined;
        },
        PATIENT,
      );
      // The back-off starts at half a second or more and grows: no busy loop.
      expect(Math.min(...waits)).toBeGreaterThanOrEqual(500);
      expect(await inspect("watcher", "{{.State.Status}} {{.RestartCount}}")).toBe("running 0");
      await stack.compose("run", "--rm", "-T", "setup");
      await until(
        "the service is connected",
        async () => (await inspect("watcher", "{{.State.Health.Status}}")) === "healthy",
        PATIENT,
      );
    });

    it("writes none of its secrets into a log", async () => {
      const show =
        "for f in /setup/kept/nkeys/* /setup/kept/*.key /setup/kept/*.token /setup/keys/*/nats.nk; do cat $f; done";
      const read = (script: string) => stack.compose("run", "--rm", "-T", "--entrypoint", "sh", "setup", "-c", script);
      const lines = (await read(show)).split("\n").map((line) => line.trim());
      const kubeconfig = listKubeconfigSecrets(await read("cat /setup/access/kubeconfig"));
      const secrets = [...lines.filter((line) => line !== "" && !line.startsWith("-----")), ...kubeconfig];
      // The seeds of all users, and the lines of at least three keys.
      expect(secrets.length).toBeGreaterThan(SERVICES.length + 5);
      expect(Math.min(...secrets.map(({ length }) => length))).toBeGreaterThan(15);
      const logs = await stack.compose("logs", "--no-color");
      for (const name of ["nats", "setup", ...SERVICES]) expect(logs).toMatch(new RegExp(`^${name}-1 `, "m"));
      expect(listLinesWith([...secrets, wrong.seed], logs.split("\n"))).toEqual([]);
    });

    it("leaves no container, volume or network after `down --volumes`", async () => {
      await stack.compose("down", "--volumes");
      expect(stack.left()).toEqual([]);
    });
  },
);

/** The part of Jaeger's query response that the test reads. */
type JaegerTraces = {
  readonly data: readonly {
    readonly spans: readonly { readonly operationName: string }[];
    readonly processes: Readonly<Record<string, { readonly serviceName: string }>>;
  }[];
};
