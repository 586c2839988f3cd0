import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connectNats, serveMethods } from "@muster/bus";
import { SessionService } from "@muster/proto";
import { startTestNats } from "@muster/testkit";
import { expect, it } from "vitest";
import { startGateway } from "./a-gateway.ts";
import { startCommand } from "./in-process.ts";

it.each(["table", "json"])(
  "lists the same versions of services through the gateway as over NATS, as %s",
  async (form) => {
    await using served = new AsyncDisposableStack();
    const server = served.use(await startTestNats());
    const directory = served.use(await mkdtempDisposable(join(tmpdir(), "muster-versions-"))).path;
    const gateway = served.use(await startGateway(server, directory));
    for (const version of ["9.8.7", "9.8.8"]) {
      const bus = served.use(await connectNats({ url: server.url, token: server.token, name: version }));
      const handlers = Object.fromEntries(Object.keys(SessionService.methods).map((name) => [name, () => ({})]));
      served.use(await serveMethods(bus, SessionService, handlers as never, { version, description: "for a test" }));
    }
    const ask = (env: Readonly<Record<string, string>>) => startCommand(["version", "-o", form], { env }).ended;
    const overNats = await ask({ MUSTER_NATS_URL: server.url, MUSTER_NATS_TOKEN: server.token });
    const throughGateway = await ask({ MUSTER_SERVER: gateway.url, MUSTER_TOKEN: gateway.token });
    expect(throughGateway).toEqual(overNats);
    expect(overNats.code).toBe(0);
    expect(overNats.stdout).toContain("gateway");
    expect(overNats.stdout).toMatch(
      form === "table" ? /^session-controller 9.8.7 and 9.8.8 \(2 replicas\)$/m : /"9.8.8"/,
    );
    expect(overNats.stderr).toContain("session-controller: more than one minor version apart");
  },
);
