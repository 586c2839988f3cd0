import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findNatsServer } from "@muster/nats-server";
import { findFreePorts, until } from "@muster/testkit";
import { expect, it } from "vitest";
import { RANDOM_MAKERS, type Found, planKeys } from "../install-keys.ts";

const PATIENT = { timeoutMs: 60_000, everyMs: 100 };
const SERVERS = [0, 1, 2];
const NOTHING: Found = {
  nkeys: undefined,
  authority: undefined,
  tls: undefined,
  engine: undefined,
  sessions: undefined,
};
type Files = Readonly<Record<string, string>>;

function installed(found: Found): { readonly tls: Files; readonly authority: Files; readonly trusted: string } {
  const plan = planKeys(found, { users: ["watcher"], namespace: "here", nowMs: Date.now() }, RANDOM_MAKERS);
  const contentOf = (name: string): Files => plan.find((each) => each.name === name)?.stringData ?? {};
  const trusted = plan.find(({ name }) => name === "muster-nats-ca")?.data?.["ca.crt"] ?? "";
  return { tls: contentOf("muster-nats-tls"), authority: contentOf("muster-nats-authority"), trusted };
}

it(
  "replaces the certificate of three servers one after another, while all servers trust each other",
  { timeout: 240_000 },
  async () => {
    await using stack = new AsyncDisposableStack();
    const directory = stack.use(await mkdtempDisposable(join(tmpdir(), "muster-certificate-"))).path;
    const { path: binary } = await findNatsServer({ env: process.env });
    const routes = await findFreePorts(SERVERS.length);
    const monitors = await findFreePorts(SERVERS.length);
    const running = new Map<number, ChildProcess>();
    const end = async (index: number): Promise<void> => {
      const child = running.get(index);
      if (child === undefined) return;
      const ended = once(child, "exit");
      child.kill("SIGTERM");
      await ended;
      running.delete(index);
    };
    stack.defer(() => Promise.all(SERVERS.map(end)).then(() => undefined));
    /** Starts a server with this Secret at the chart's mount point and the chart's block `cluster`. */
    const start = async (index: number, secret: Files): Promise<void> => {
      const folder = join(directory, String(index));
      await mkdir(folder, { recursive: true });
      for (const [name, text] of Object.entries(secret)) await writeFile(join(folder, name), text);
      const own = `cert_file: ${folder}/tls.crt, key_file: ${folder}/tls.key`;
      const lines = [
        `listen: "127.0.0.1:-1"`,
        `http: "127.0.0.1:${monitors[index]}"`,
        `server_name: nats-${index}`,
        `log_file: ${folder}/log`,
        `tls { ${own} }`,
        `jetstream { store_dir: ${folder}/data, max_file_store: 100MB }`,
        `cluster { name: muster, listen: "127.0.0.1:${routes[index]}", no_advertise: true`,
        `  tls { ${own}, ca_file: ${folder}/ca.crt, verify: true }`,
        `  routes: [${routes.map((port) => `"tls://localhost:${port}"`).join(", ")}] }`,
      ];
      await writeFile(join(folder, "nats.conf"), lines.join("\n"));
      running.set(index, spawn(binary, ["-c", join(folder, "nats.conf")], { stdio: "ignore" }));
    };
    const isWell = (index: number): Promise<boolean> =>
      fetch(`http://127.0.0.1:${monitors[index]}/healthz`).then(
        ({ ok }) => ok,
        () => false,
      );

    const before = installed(NOTHING);
    for (const index of SERVERS) await start(index, before.tls);
    for (const index of SERVERS) await until(`server ${index} is well`, () => isWell(index), PATIENT);

    // The Secret with the certificate is deleted, and the hook reruns.
    const after = installed({ ...NOTHING, authority: before.authority });
    expect(after.tls["tls.crt"]).not.toBe(before.tls["tls.crt"]);
    expect(after.trusted).toBe(before.trusted);
    for (const index of SERVERS.toReversed()) {
      await end(index);
      await start(index, after.tls);
      // The condition of the startup probe, after which the StatefulSet continues.
      await until(`server ${index} is well with the new one`, () => isWell(index), PATIENT);
    }
  },
);
