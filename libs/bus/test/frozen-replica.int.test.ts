import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { findFault } from "@muster/faults";
import { buildLeaseService, services, type MethodDescriptor, type ServiceDescriptor } from "@muster/proto";
import { startTestNats } from "@muster/testkit";
import { expect, it } from "vitest";
import { makeClient, connectNats, type CallOptions } from "../src/index.ts";

type AnyCall = (request: object, options: CallOptions) => Promise<unknown>;
type Row = { readonly name: string; readonly method: MethodDescriptor; readonly call: AnyCall };

const FREEZE = "SIGSTOP";
/** Longer than the time limit of commands, for a busy machine. */
const COMMAND_MS = 30_000;

it("answers every read and write of every service from another replica than the frozen one that received it", async () => {
  await using stack = new AsyncDisposableStack();
  const { url, token } = stack.use(await startTestNats());
  const start = async (): Promise<ChildProcess> => {
    const child = fork(join(import.meta.dirname, "every-service.process.ts"), [url, token]);
    stack.defer(() => void child.kill("SIGKILL"));
    await once(child, "message");
    return child;
  };
  const serve = async (replica: ChildProcess): Promise<void> => {
    replica.send("serve");
    await once(replica, "message");
  };
  const [frozen, other] = [await start(), await start()];
  await serve(frozen);
  const caller = stack.use(await connectNats({ url, token, name: "caller" }));
  const every: readonly ServiceDescriptor[] = [...services, buildLeaseService("main")];
  const rows = every.flatMap((service): Row[] => {
    const calls: Readonly<Record<string, AnyCall>> = makeClient(caller, service);
    return Object.entries(service.methods).map(([key, method]) => {
      const name = `${service.area}.${method.verb}`;
      return { name, method, call: calls[key] ?? (() => Promise.reject(new Error(`${name} cannot be called`))) };
    });
  });

  frozen.kill(FREEZE);
  // Only the frozen replica serves at this time, so it receives all requests.
  const asked = rows.map(({ name, method, call }) =>
    call(isLongPoll(method) ? { waitMs: 1000 } : {}, { timeoutMs: COMMAND_MS }).then(
      () => [name, "answered"],
      (error: unknown) => [name, findFault(error) ?? error],
    ),
  );
  await caller.connection.flush();
  await serve(other);
  expect(await Promise.all(asked)).toEqual(rows.map(({ name }) => [name, "answered"]));
  expect(rows.filter(({ method }) => method.isRead).length).toBeGreaterThan(every.length);
  expect(rows.filter(({ method }) => isLongPoll(method)).length).toBeGreaterThan(0);
});

function isLongPoll({ request }: MethodDescriptor): boolean {
  const empty: unknown = request.create();
  return typeof empty === "object" && empty !== null && "waitMs" in empty;
}
