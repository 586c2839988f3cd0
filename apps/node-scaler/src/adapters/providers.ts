import { type KubeCalls, makeKubeCalls, loadKube } from "@muster/kube";
import { type z } from "zod";
import { openClusterApi } from "../providers/cluster-api/open-cluster-api.ts";
import { clusterApiSettings } from "../providers/cluster-api/settings.ts";
import { ec2Settings } from "../providers/ec2/settings.ts";
import { openKarpenter } from "../providers/karpenter/open-karpenter.ts";
import { karpenterSettings } from "../providers/karpenter/settings.ts";
import { openLocal } from "../providers/local/open-local.ts";
import { localSettings } from "../providers/local/settings.ts";
import type { NodeProvider } from "../providers/provider.ts";
import type { ProviderBlock } from "../read-pools-file.ts";
import type { Clock } from "./clock.ts";
import { mintBootstrapToken } from "./mint-bootstrap-token.ts";

/** The dependencies of every provider beside its own settings. */
export type ProviderDeps = {
  /** The key of the provider's block in the file of pools. */
  readonly name: string;
  readonly calls: KubeCalls;
  /** Timeout of one call. */
  readonly timeoutMs: number;
  readonly clock: Clock;
  /** The time for which an instance type with a shortage is not requested. */
  readonly unavailableMs: number;
};

type ProviderKind = {
  readonly settings: z.ZodType;
  /** Names of the settings whose value is a file path. */
  readonly files: readonly string[];
  readonly open: (block: ProviderBlock, deps: ProviderDeps) => Promise<NodeProvider>;
};

/** Validity of a bootstrap token. A machine that boots longer cannot join, because the provider does not know the boot timeouts of pools. */
const TOKEN_VALID_MS = 3_600_000;

function kind<Shape extends z.ZodType>(
  settings: Shape,
  files: readonly (keyof z.output<Shape> & string)[],
  open: (settings: z.output<Shape>, deps: ProviderDeps) => NodeProvider | Promise<NodeProvider>,
): ProviderKind {
  return { settings, files, open: async (block, deps) => await open(settings.parse(block.settings), deps) };
}

/** All kinds of providers. A new kind is a further folder of `providers` and a line here. */
export const PROVIDER_KINDS: Readonly<Record<string, ProviderKind>> = {
  local: kind(localSettings, ["tokenFile"], (settings, deps) => openLocal({ ...deps, settings })),
  karpenter: kind(karpenterSettings, [], (settings, deps) => openKarpenter({ ...deps, settings })),
  "cluster-api": kind(clusterApiSettings, ["kubeconfig"], (settings, deps) => {
    if (settings.kubeconfig === undefined) return openClusterApi({ ...deps, settings });
    const calls = makeKubeCalls(loadKube(settings.kubeconfig));
    return {
      ...openClusterApi({ ...deps, calls, settings }),
      [Symbol.asyncDispose]: () => calls[Symbol.asyncDispose](),
    };
  }),
  ec2: kind(ec2Settings, ["userDataFile"], async (settings, deps) => {
    // The SDK is large, so it is loaded only for EC2.
    const { openEc2 } = await import("../providers/ec2/open-ec2.ts");
    const { calls, clock } = deps;
    return openEc2({
      ...deps,
      now: clock.now,
      wallNow: clock.wallNow,
      settings,
      mintToken: (nodeName, signal) =>
        mintBootstrapToken(calls, { nodeName, nowMs: clock.wallNow(), validMs: TOKEN_VALID_MS }, signal),
    });
  }),
};

/** Opens the provider of a block with valid settings. Rejects as the provider does. */
export function openProvider(block: ProviderBlock, deps: ProviderDeps): Promise<NodeProvider> {
  const found = Object.hasOwn(PROVIDER_KINDS, block.kind) ? PROVIDER_KINDS[block.kind] : undefined;
  if (found === undefined) throw new Error(`provider ${block.name} is of an unknown kind: ${block.kind}`);
  return found.open(block, deps);
}
