import { execFile, spawnSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { findFreePorts, buildProcessEnv } from "@muster/testkit";
import { ROOT } from "../src/root.ts";

const run = promisify(execFile);
const LISTS = [
  ["ps", "--all"],
  ["volume", "ls"],
  ["network", "ls"],
];
const OUTPUT_MAX_BYTES = 64 * 1024 * 1024;

/**
 * Returns why containers cannot be tested here; undefined where they can. With CI=true it throws instead, unless MUSTER_TESTS_WITHOUT=compose leaves them out
 * on purpose.
 */
export function describeMissingContainers(images: readonly string[]): string | undefined {
  const lack = findLack(images);
  if (lack === undefined || process.env["CI"] !== "true") return lack;
  if (process.env["MUSTER_TESTS_WITHOUT"] === "compose") return `${lack}, and MUSTER_TESTS_WITHOUT=compose`;
  throw new Error(`containers cannot be tested: ${lack}; MUSTER_TESTS_WITHOUT=compose leaves them out`);
}

function findLack(images: readonly string[]): string | undefined {
  const engine = spawnSync("docker", ["compose", "version"], { encoding: "utf8" });
  if (engine.status !== 0) return "docker compose is missing";
  if (spawnSync("docker", ["version"]).status !== 0) return "no Docker engine answers";
  const { status, stderr } = spawnSync("docker", ["image", "inspect", "--format", "ok", ...images], {
    encoding: "utf8",
  });
  if (status === 0) return undefined;
  return `${stderr.trim().split("\n").at(-1) ?? ""}; \`npm run images\` builds them`;
}

/** A project of docker-compose.yml with its own name, ports and folder. */
export type ComposeStack = AsyncDisposable & {
  readonly directory: string;
  /** The API of Jaeger. */
  readonly jaegerUrl: string;
  readonly gatewayUrl: string;
  /** Variables with which the command line finds the stack and sends its spans to the same collector. */
  readonly clientEnv: NodeJS.ProcessEnv;
  /** Output of `docker compose ...`; rejects with its error output when it fails. */
  readonly compose: (...args: readonly string[]) => Promise<string>;
  /** The containers, volumes and networks of the project. */
  readonly left: () => readonly string[];
};

/** A stack of this clone, or of the folder with another docker-compose.yml. */
export async function prepareComposeStack(folder = ROOT): Promise<ComposeStack> {
  const directory = await mkdtemp(join(tmpdir(), "muster-compose-"));
  const [nats = 0, otlp = 0, jaeger = 0, kubernetes = 0, gateway = 0] = await findFreePorts(5);
  const env = {
    ...buildProcessEnv(),
    HOME: process.env["HOME"],
    MUSTER_TAG: process.env["MUSTER_TAG"],
    MUSTER_COMPOSE_DIRECTORY: directory,
    MUSTER_COMPOSE_NATS_PORT: String(nats),
    MUSTER_COMPOSE_KUBERNETES_PORT: String(kubernetes),
    MUSTER_COMPOSE_OTLP_PORT: String(otlp),
    MUSTER_COMPOSE_JAEGER_PORT: String(jaeger),
    MUSTER_COMPOSE_GATEWAY_PORT: String(gateway),
  };
  const project = `muster-test-${process.pid}`;
  const compose = async (...args: readonly string[]): Promise<string> => {
    const all = ["compose", "--file", "docker-compose.yml", "--project-name", project, ...args];
    const { stdout } = await run("docker", all, { cwd: folder, env, maxBuffer: OUTPUT_MAX_BYTES });
    return stdout;
  };
  return {
    directory,
    jaegerUrl: `http://127.0.0.1:${jaeger}`,
    gatewayUrl: `http://127.0.0.1:${gateway}`,
    clientEnv: {
      ...buildProcessEnv(),
      HOME: directory,
      MUSTER_LOCAL_FILE: join(directory, "local.json"),
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${otlp}`,
    },
    compose,
    left: () =>
      LISTS.flatMap((list) => {
        const label = `label=com.docker.compose.project=${project}`;
        const { stdout } = spawnSync("docker", [...list, "--quiet", "--filter", label], { encoding: "utf8" });
        return stdout.split("\n").filter((id) => id !== "");
      }),
    [Symbol.asyncDispose]: async () => {
      await compose("down", "--volumes", "--timeout", "5");
      await rm(directory, { recursive: true, force: true });
    },
  };
}
