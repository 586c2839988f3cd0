import { spawn } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { connect as secure } from "node:tls";
import { CoreV1Api } from "@kubernetes/client-node";
import { connectNats } from "@muster/bus";
import { startApiServer } from "@muster/devcluster";
import { loadKube } from "@muster/kube";
import { findNatsServer } from "@muster/nats-server";
import { findFreePorts, until } from "@muster/testkit";
import { expect, it } from "vitest";
import { prepare } from "../src/containers/setup/prepare.ts";
import { ROOT } from "../src/root.ts";
import { makeSetupVolumes } from "./setup-volumes.ts";

const DAY_MS = 86_400_000;

it("renews the certificate of a running NATS: clients trust the old and the new one, which it serves after SIGHUP", async () => {
  await using stack = new AsyncDisposableStack();
  const { root, service } = await makeSetupVolumes(stack);
  const [port = 0, monitor = 0] = await findFreePorts(2);
  // The certificate is old enough to be renewed today.
  const setup = { root, service, natsPort: port, kubernetesPort: 6443, nowMs: Date.now() - 340 * DAY_MS };
  await prepare(setup);

  const compose = await readFile(join(ROOT, "deploy/nats/compose.conf"), "utf8");
  const here = compose
    .replace("0.0.0.0:4222", `127.0.0.1:${port}`)
    .replace("0.0.0.0:8222", `127.0.0.1:${monitor}`)
    .replaceAll("/etc/nats-setup", join(root, "nats"))
    .replace("../nats-setup", "nats")
    .replace("/data", join(root, "data"));
  await writeFile(join(root, "nats.conf"), here);
  const { path: binary } = await findNatsServer({ env: process.env });
  const server = spawn(binary, ["-c", join(root, "nats.conf")], { stdio: "ignore" });
  stack.defer(async () => {
    const ended = once(server, "exit");
    server.kill("SIGKILL");
    await ended;
  });
  await until("it listens", () => shown(port).catch(() => undefined));

  const client = (file: string): string => join(root, "client", file);
  const ask = async (): Promise<void> => {
    const access = { nkey: { file: client("cli.nk") }, tls: { caFile: client("ca.crt") } };
    await using bus = await connectNats({
      url: `tls://localhost:${port}`,
      name: "cli",
      inboxPrefix: "_INBOX.cli",
      ...access,
    });
    await bus.connection.flush();
  };
  await ask();
  const before = await shown(port);
  expect(await prepare({ ...setup, nowMs: Date.now() })).toEqual([{ kind: "make-certificate", because: "ends-soon" }]);
  await ask();
  expect(await shown(port)).toBe(before);
  server.kill("SIGHUP");
  const renewed = new X509Certificate(await readFile(join(root, "nats/tls.crt"))).fingerprint256;
  await until("NATS serves the new certificate", async () => (await shown(port)) === renewed);
  await ask();
});

it("writes a kubeconfig for the owner of the clone that the embedded cluster accepts when it starts later", async () => {
  await using stack = new AsyncDisposableStack();
  const { root, service } = await makeSetupVolumes(stack);
  const [port = 0] = await findFreePorts(1);
  await prepare({ root, service, natsPort: 4222, kubernetesPort: port, nowMs: Date.now() });
  stack.use(await startApiServer({ directory: join(root, "cluster"), persist: true, port, host: "dev-cluster" }));
  const { items } = await loadKube(join(root, "client/kubeconfig")).makeApiClient(CoreV1Api).listNamespace();
  expect(items.map(({ metadata }) => metadata?.name)).toContain("default");
});

/** The fingerprint of the certificate that the server presents. */
async function shown(port: number): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  // NATS sends its INFO line first and starts TLS then.
  await once(socket, "data");
  const encrypted = secure({ socket, rejectUnauthorized: false });
  try {
    await once(encrypted, "secureConnect");
    return encrypted.getPeerX509Certificate()?.fingerprint256 ?? "";
  } finally {
    encrypted.destroy();
  }
}
