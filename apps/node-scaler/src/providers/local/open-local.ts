import { readFile } from "node:fs/promises";
import { throwFault } from "@muster/faults";
import { findNewestImage } from "../newest-image.ts";
import type { NodeProvider, BootOutcome } from "../provider.ts";
import { callCloud, type CloudRefusal } from "./cloud-client.ts";
import { buildInstance, shapes } from "./machine-shapes.ts";
import type { LocalSettings } from "./settings.ts";

type LocalDeps = {
  readonly name: string;
  readonly settings: LocalSettings;
  /** The timeout of one call of the provider. */
  readonly timeoutMs: number;
};

/** Opens a provider of machines of the small cloud in the embedded cluster. Throws if the token file is unreadable. */
export async function openLocal({ name, settings, timeoutMs }: LocalDeps): Promise<NodeProvider> {
  const { url, owner, tokenFile } = settings;
  const token = (await readFile(tokenFile, "utf8")).trim();
  const closed = new AbortController();
  const cloud = { name, url, token, timeoutMs };
  const call = <Shape extends Parameters<typeof callCloud>[2]>(
    request: Parameters<typeof callCloud>[1],
    shape: Shape,
    signal: AbortSignal,
  ) => callCloud(cloud, request, shape, AbortSignal.any([signal, closed.signal]));

  return {
    name,
    fixedSizeVolumes: false,
    start: async ({ pool: _, ...boot }, signal) => {
      const doing = `starting ${boot.nodeName}`;
      const request = { doing, method: "POST", path: "instances", body: { ...boot, owner } } as const;
      const answer = await call(request, shapes.machine, signal);
      if (answer.kind === "refused") return refusedStart(answer, { name, doing, zone: boot.zone });
      return { kind: "started", instanceId: answer.body.instanceId, zone: answer.body.zone };
    },
    stop: async ({ instanceId, nodeName }, signal) => {
      const doing = `stopping ${nodeName}`;
      const path = `instances/${encodeURIComponent(instanceId)}`;
      const answer = await call({ doing, method: "DELETE", path }, shapes.machine, signal);
      if (answer.kind === "refused" && answer.code !== "not-found") refused(answer, name, doing);
    },
    list: async (signal) => {
      const doing = "listing instances";
      const path = `instances?${new URLSearchParams({ owner }).toString()}`;
      const answer = await call({ doing, method: "GET", path }, shapes.machines, signal);
      if (answer.kind === "refused") return refused(answer, name, doing);
      return answer.body.instances.flatMap((machine) => buildInstance(machine) ?? []);
    },
    findImage: async (properties, signal) => {
      const doing = "looking for an image";
      const path = `images?${new URLSearchParams(properties).toString()}`;
      const answer = await call({ doing, method: "GET", path }, shapes.images, signal);
      if (answer.kind === "refused") return refused(answer, name, doing);
      const newest = findNewestImage(answer.body.images);
      return newest ?? throwFault({ code: "not_found", kind: "image", id: JSON.stringify(properties) }, { doing });
    },
    checkPool: async ({ name: pool, instanceTypes }, signal) => {
      const doing = `checking pool ${pool}`;
      const answer = await call({ doing, method: "GET", path: "types" }, shapes.types, signal);
      if (answer.kind === "refused") return refused(answer, name, doing);
      const known = answer.body.types.map((type) => type.name);
      return instanceTypes
        .filter((type) => !known.includes(type.name))
        .map((type) => `there is no instance type ${type.name}; one of ${known.join(", ")} is needed`);
    },
    [Symbol.asyncDispose]: () => {
      closed.abort();
      return Promise.resolve();
    },
  };
}

type Asked = { readonly name: string; readonly doing: string; readonly zone: string | undefined };

function refusedStart(refusal: CloudRefusal, { name, doing, zone: asked }: Asked): BootOutcome {
  const { code, message, zone } = refusal;
  if (code === "invalid" && zone !== undefined)
    return { kind: "no-capacity", zone: asked, subnet: undefined, message, isUnknownZone: true };
  if (code === "no-capacity") return { kind: "no-capacity", zone, subnet: undefined, message };
  if (code === "unsupported") return { kind: "unsupported", message };
  return refused(refusal, name, doing);
}

function refused({ code, message }: CloudRefusal, name: string, doing: string): never {
  return throwFault({ code: "invalid_request", field: `provider ${name}`, reason: `${message} (${code})` }, { doing });
}
