import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { createServer, request, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { findFreePort, until } from "@muster/testkit";

const PROGRAM = (process.env["PATH"] ?? "")
  .split(":")
  .map((directory) => join(directory, "moto_server"))
  .find(existsSync);

/** moto_server is an EC2 emulator of another project; `pip install 'moto[server]'` installs it. With CI=true a missing one is an error. */
export const moto =
  PROGRAM === undefined
    ? { found: false as const, reason: "moto_server is not on the PATH" }
    : { found: true as const, program: PROGRAM };
if (!moto.found && process.env["CI"] === "true") throw new Error(`CI=true allows no skipped suite: ${moto.reason}`);

export type PlannedEvent = { readonly instanceId: string; readonly code: string; readonly notBefore: Date };

export type Ec2Double = AsyncDisposable & {
  readonly endpoint: string;
  /** The scheduled events of instances. moto has neither such events nor the filter by them, so the listener answers in its place. */
  readonly planned: PlannedEvent[];
  /** Counts the requests of each action. */
  readonly asked: Map<string, number>;
  /** Decides by a request's parameters: a code gives an error as EC2 formats it, a status without a code that of a broken service, and "hang" no answer. */
  refuse: (parameters: URLSearchParams) => { code: string; message?: string; status?: number } | "hang" | undefined;
};

type Own = Pick<Ec2Double, "asked" | "planned" | "refuse">;

/** Starts a separate moto_server behind a listener that can refuse requests. */
export async function startEc2(): Promise<Ec2Double> {
  if (!moto.found) throw new Error(moto.reason);
  const port = await findFreePort();
  const child = spawn(moto.program, ["-H", "127.0.0.1", "-p", String(port)], { stdio: "ignore" });
  const double: Own = { asked: new Map(), planned: [], refuse: () => undefined };
  const server = createServer((incoming, response) => void answer(double, port, incoming, response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  await until(
    "moto answers",
    async () => (await fetch(`http://127.0.0.1:${port}/moto-api/`).catch(() => undefined))?.ok,
    {
      timeoutMs: 120_000,
      everyMs: 50,
    },
  );
  const { port: own } = server.address() as AddressInfo;
  return Object.assign(double, {
    endpoint: `http://127.0.0.1:${own}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
      child.kill("SIGKILL");
      await once(child, "exit");
    },
  });
}

async function answer(double: Own, port: number, incoming: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = await text(incoming);
  const parameters = new URLSearchParams(body);
  const action = parameters.get("Action") ?? "";
  double.asked.set(action, (double.asked.get(action) ?? 0) + 1);
  const refusal = double.refuse(parameters);
  if (refusal === "hang") return;
  if (refusal !== undefined) {
    const { code, message = code, status = 400 } = refusal;
    const error = `<Error><Code>${code}</Code><Message>${message}</Message></Error>`;
    response.writeHead(status, { "content-type": "text/xml" });
    response.end(`<?xml version="1.0"?><Response><Errors>${error}</Errors><RequestID>1</RequestID></Response>`);
    return;
  }
  if (action === "DescribeInstanceStatus") {
    response.writeHead(200, { "content-type": "text/xml" });
    response.end(describeStatuses(double.planned));
    return;
  }
  const options = { port, host: "127.0.0.1", method: incoming.method, path: incoming.url, headers: incoming.headers };
  const forward = request(options, (reply) => {
    response.writeHead(reply.statusCode ?? 500, reply.headers);
    reply.pipe(response);
  });
  forward.on("error", () => response.destroy());
  forward.end(body);
}

function describeStatuses(planned: readonly PlannedEvent[]): string {
  const items = planned.map(
    ({ instanceId, code, notBefore }) =>
      `<item><instanceId>${instanceId}</instanceId><eventsSet><item><code>${code}</code><description>planned</description>` +
      `<notBefore>${notBefore.toISOString()}</notBefore></item></eventsSet></item>`,
  );
  const xmlns = "http://ec2.amazonaws.com/doc/2016-11-15/";
  return `<?xml version="1.0"?><DescribeInstanceStatusResponse xmlns="${xmlns}"><requestId>1</requestId><instanceStatusSet>${items.join("")}</instanceStatusSet></DescribeInstanceStatusResponse>`;
}
