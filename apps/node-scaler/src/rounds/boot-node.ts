import { labels, taints } from "@muster/proto";
import {
  buildBootKindKey,
  decideBootOutcome,
  lengthenBackoff,
  type BootAnswer,
} from "../domain/decide-boot-outcome.ts";
import type { ScaledNode } from "../domain/node.ts";
import type { PoolPolicy } from "../domain/pool.ts";
import { buildMark, rememberShortage } from "../domain/unavailability.ts";
import { runInNodeSpan } from "../node-trace.ts";
import type { BootRequest, NodeProvider } from "../providers/provider.ts";
import { describeFailure, type Scaler } from "../scaler.ts";

/** Requests the instance of a Creating node from the provider, and records the answer. Never rejects. */
export async function bootNode(scaler: Scaler, node: ScaledNode, policy: PoolPolicy): Promise<void> {
  const { name, spec } = node;
  const attributes = {
    "muster.pool": spec.pool,
    "muster.instance_type": spec.instanceType,
    "muster.spot": spec.spot,
    "muster.demand": node.status.boundTo ?? "",
  };
  await runInNodeSpan("boot node", name, attributes, async (span) => {
    const beganMs = scaler.now();
    const provider = scaler.providers.get(policy.provider);
    if (provider === undefined) throw new Error(`pool ${policy.name} has no provider ${policy.provider}`);
    const answer = await ask(scaler, provider, buildBoot(node, policy, scaler));
    const outcome = await takeAnswer(scaler, provider, { node, policy, answer });
    span.setAttributes({ "muster.outcome": outcome });
    scaler.report.booted(outcome, scaler.now() - beganMs);
  }).catch((error: unknown) => scaler.report.failed("pool", `recording the outcome of the boot of ${name}`, error));
}

async function ask(scaler: Scaler, provider: NodeProvider, boot: BootRequest): Promise<BootAnswer> {
  if (!scaler.isHeld()) return { kind: "failed", message: "this replica leads no more", retryAfterMs: 0 };
  try {
    return await provider.start(boot, scaler.orderSignal);
  } catch (error) {
    scaler.report.failed("pool", `booting ${boot.nodeName}`, error);
    return { kind: "failed", ...describeFailure(error) };
  }
}

type Answered = { readonly node: ScaledNode; readonly policy: PoolPolicy; readonly answer: BootAnswer };

async function takeAnswer(
  scaler: Scaler,
  provider: NodeProvider,
  { node, policy, answer }: Answered,
): Promise<"started" | "short" | "failed"> {
  const { memory, records, now, unavailableMs, report } = scaler;
  const { spec } = node;
  const outcome = decideBootOutcome(node, answer);
  if (outcome.because === "short") {
    const { instanceType, spot } = spec;
    const found = buildMark({ provider: policy.provider, instanceType, spot }, outcome.shortage, now());
    memory.unavailable = rememberShortage(memory.unavailable, { ...found, untilMs: found.sinceMs + unavailableMs });
    report.planned("pool", { kind: "mark", node: node.name, because: outcome.shortage.kind, message: found.message });
  }
  const asked = { provider: policy.provider, instanceType: spec.instanceType, spot: spec.spot, zone: spec.zone };
  const key = buildBootKindKey(asked);
  if (answer.kind === "failed")
    memory.backoffs.set(key, lengthenBackoff(memory.backoffs.get(key), { ...answer, asked }, now()));
  else if (answer.kind === "started") memory.backoffs.delete(key);
  const written = await records.changeNode(outcome);
  // The record is gone or has ended meanwhile: without this stop only a scan would find the instance.
  if (written === undefined && answer.kind === "started" && scaler.isHeld())
    await provider.stop({ instanceId: answer.instanceId, nodeName: node.name }, scaler.orderSignal);
  return outcome.because;
}

function buildBoot(
  { name, spec }: ScaledNode,
  policy: PoolPolicy,
  { poolLabel, name: scaler }: Pick<Scaler, "poolLabel" | "name">,
): BootRequest {
  const { pool, instanceType, bootImage, spot, zone, gpus, volumeGib, privateIpOnly } = spec;
  return {
    nodeName: name,
    pool,
    instanceType,
    image: bootImage,
    spot,
    zone,
    gpus,
    volumeGib,
    privateIpOnly,
    labels: { ...policy.labels, [poolLabel]: pool, [labels.scaledNode]: name, [labels.scaler]: scaler },
    taints: [{ key: taints.startup, effect: "NoSchedule" }],
  };
}
