import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findNatsServer, startNatsServer } from "@muster/nats-server";
import { makeCertificateAuthority, scrapeMetrics, makeSignedCertificate, until } from "@muster/testkit";
import { startTelemetry } from "@muster/tracing";
import { expect, it } from "vitest";
import { connectService } from "../src/index.ts";
import { contextOf } from "./service-context.ts";

it("reports a server that came back with a foreign certificate as untrusted, until the file has its issuer", async () => {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await mkdtempDisposable(join(tmpdir(), "muster-untrusted-")));
  const telemetry = stack.use(await startTelemetry({ service: "watcher", version: "1.0.0", env: {} }));
  const { path: binary } = await findNatsServer({ env: process.env });
  const write = async (name: string, text: string): Promise<string> => {
    await writeFile(join(path, name), text, { mode: 0o600 });
    return join(path, name);
  };
  const authorities = {
    first: await makeCertificateAuthority("first"),
    second: await makeCertificateAuthority("second"),
  };
  const start = async (authority: keyof typeof authorities, port: number) => {
    const { cert, key } = await makeSignedCertificate(authorities[authority], { commonName: "nats", use: "server" });
    const tls = { certFile: await write("server.pem", cert), keyFile: await write("server.key", key) };
    return stack.use(await startNatsServer({ binary, directory: join(path, "nats"), port, token: "shared", tls }));
  };
  const before = await start("first", 0);
  const { context, said, missing } = contextOf(
    {
      MUSTER_NATS_URL: before.url.replace("nats:", "tls:"),
      MUSTER_NATS_TOKEN: "shared",
      MUSTER_NATS_CA_FILE: await write("trusted.pem", authorities.first.cert),
    },
    new AbortController().signal,
  );
  const bus = stack.use(await connectService(context));

  await before.kill();
  const after = await start("second", before.port);
  await until("it has reported that", missing);
  expect(missing()).toContain(`certificate is not trusted by ${join(path, "trusted.pem")}: `);
  expect(said.join("\n")).toContain("certificate_refused");
  expect(await scrapeMetrics(telemetry)).toMatch(
    /muster_bus_refusals_total\{muster_bus_refused="certificate"[^}]*\} [1-9]/,
  );

  await write("trusted.pem", authorities.second.cert);
  await until("it is back", () => missing() === undefined);
  await bus.connection.flush();
  expect(after.port).toBe(before.port);
});
