import { publishEvent, type NatsBus } from "@muster/bus";
import { buildResultBytes, nsFromMs } from "@muster/leases";
import { readKeyFile, type Signer, verifySignature } from "@muster/leases/keys";
import { muster, streams, subjects } from "@muster/proto";
import type { ServiceContext } from "@muster/service";
import { openView } from "@muster/store";
import { traceparentOf } from "@muster/tracing";
import type { Config } from "../config.ts";
import type { EngineOps } from "../engine.ts";
import { openHoldings } from "../holdings.ts";
import type { TellDeps } from "../tell-lease.ts";
import type { Workload } from "../workloads/workload.ts";
import type { HandlerDeps } from "./handlers.ts";
import { openHistory } from "./history.ts";
import { toWireResult } from "./messages.ts";
import { makeRecords, openLeases } from "./records.ts";

export type Deps = AsyncDisposable & {
  readonly engine: EngineOps;
  readonly requests: HandlerDeps;
  /** What is not as fresh as it should be; undefined when all is. */
  readonly staleness: () => string | undefined;
};

/** Leases may be this much behind what others have written. */
const STALE_MS = 10_000;

/** Opens what the service lives on; the one place that knows what stands behind each verb. */
export async function openDeps(
  context: ServiceContext<Config>,
  bus: NatsBus,
  workloads: readonly Workload[],
): Promise<Deps> {
  const { config, logger, signal } = context;
  const signer = "file" in config.key ? await readKeyFile("PROVISION_KEY_FILE", config.key.file) : config.key;
  logger.info({ engine: config.order.engine, signs: signer.userId }, "results are signed");
  await bus.ensureStream(streams.events);
  await bus.ensureStream(streams.audit);
  await using undo = new AsyncDisposableStack();
  const bucket = await openLeases(bus.connection);
  const view = undo.use(
    await openView(bucket, {
      signal,
      onProblem: (error, retryInMs) => logger.warn({ err: error, retryInMs }, "following leases is interrupted"),
    }),
  );
  const records = makeRecords(bucket);
  const history = openHistory(bus);
  const { capacity } = config;
  const holdings = openHoldings(capacity);
  const follow = (id: string, entry: ReturnType<typeof view.get>): void => {
    if (entry === undefined) holdings.forget(id);
    else if ("record" in entry.value && entry.value.record.order.engine === config.order.engine)
      holdings.learn({ record: entry.value.record, revision: entry.revision });
  };
  for (const entry of view.entries()) follow(entry.key, entry);
  undo.defer(view.onChange((id) => follow(id, view.get(id))));
  const opened = undo.move();
  return {
    engine: {
      engine: config.order.engine,
      view,
      records,
      history,
      feedback: feedbackOver(bus, config.order.engine),
      holdings,
      workloads: new Map(workloads.map((each) => [each.type, each])),
      sign: signResult(signer),
      nowNs,
      policy: config.engine,
      tell: {
        failed: (id, what, error) => logger.warn({ lease: id, what, err: error }, "not done, and tried again"),
        defect: (id, error) => logger.error({ lease: id, err: error }, "defect of a workload"),
      },
    },
    requests: {
      records,
      nowNs,
      verify: verifySignature,
      policy: config.order,
      traceparent: traceparentOf,
      view,
      holdings,
      history,
      capacity,
    },
    staleness: () => (view.ageMs() > STALE_MS ? `leases were followed last ${view.ageMs()} ms ago` : undefined),
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}

/** The time that users sign; it is nobody's monotonic clock. */
function nowNs(): bigint {
  return nsFromMs(Date.now());
}

function signResult({ sign }: Signer): EngineOps["sign"] {
  return (result) => ({ ...result, signature: sign(buildResultBytes(result)) });
}

/** Tells over NATS; an answer that is sent again is dropped by the stream within its window. */
function feedbackOver(bus: NatsBus, engine: string): TellDeps["feedback"] {
  const { LeaseAnswered } = muster.provision.v1;
  return async ({ id, number, result, deleted }) => {
    const message = { engine, id, result: result === undefined ? null : toWireResult(result), deleted };
    await publishEvent(bus, subjects.leaseAnswered(id), LeaseAnswered, message, {
      messageId: `${engine}.${id}.${number}`,
    });
  };
}
