import { expect, it } from "vitest";
import { buildContainerSecret, buildContainerService, buildDeployment, CONTAINER } from "./container.ts";
import { buildVolumeClaim, VOLUME } from "./volume.ts";

const labels = { lease: "1-1" };
const place = { name: "lease-1-1", namespace: "muster-x" };
const capacity = { cpu: 2, memory: 2048 };

function options(order: object) {
  const read = CONTAINER.read(JSON.stringify({ image: "registry/web:1", capacity, ...order }));
  if (!read.ok) throw new Error(JSON.stringify(read.problems));
  return {
    place,
    labels,
    nodes: { poolLabel: "pool", pools: [] },
    data: read.value,
    claimOf: (id: string) => `lease-${id}`,
  };
}

function podOf(order: object) {
  const { spec } = buildDeployment(options(order)).spec.template;
  return { ...spec, container: spec.containers[0]! };
}

it("runs one pod that its labels select, and never two that share its volumes", () => {
  const { spec } = buildDeployment(options({}));
  expect(spec).toMatchObject({ replicas: 1, strategy: { type: "Recreate" }, selector: { matchLabels: labels } });
  expect(spec.template.metadata).toEqual({ labels });
});

it("gives a container what it ordered, and no access to the cluster", () => {
  const pod = podOf({ capacity: { ...capacity, disk_size: 512 } });
  const resources = { cpu: "2", memory: "2048Mi", "ephemeral-storage": "512Mi" };
  expect(pod.container.resources).toEqual({ requests: resources, limits: resources });
  expect(pod).toMatchObject({ automountServiceAccountToken: false, enableServiceLinks: false });
  for (const none of [{}, { disk_size: 0 }])
    expect(podOf({ capacity: { ...capacity, ...none } }).container.resources.limits).toMatchObject({
      "ephemeral-storage": "1024Mi",
    });
});

it("runs the image unchanged by default, and otherwise exactly the order", () => {
  expect(podOf({}).container).not.toHaveProperty("command");
  expect(podOf({}).container).not.toHaveProperty("args");
  const { container } = podOf({ entrypoint: ["sh", "-c"], args: ["echo $(PATH) $$"], env: { A: "$(B)" } });
  expect(container).toMatchObject({ command: ["sh", "-c"], args: ["echo $$(PATH) $$$$"] });
  expect(container.env).toEqual([{ name: "A", value: "$$(B)" }]);
});

it("keeps secrets out of everything but the secret", () => {
  const secret = options({ env: { A: "1" }, secret_env: { B: "hush" } });
  expect(buildContainerSecret(secret)).toEqual({ metadata: place, stringData: { B: "hush" } });
  expect(JSON.stringify(buildDeployment(secret))).not.toContain("hush");
  const [, second] = buildDeployment(secret).spec.template.spec.containers[0]!.env;
  expect(second).toEqual({ name: "B", valueFrom: { secretKeyRef: { name: "lease-1-1", key: "B" } } });
  expect(buildContainerSecret(options({}))).toBeUndefined();
  expect(() => options({ env: { A: "1" }, secret_env: { A: "2" } })).toThrow("is in env, too");
});

it("mounts a volume once, at any number of mount points", () => {
  const mounts = [
    { volume_id: "2-1", mountpoint: "/a" },
    { volume_id: "2-2", mountpoint: "/b" },
    { volume_id: "2-1", mountpoint: "/c" },
  ];
  const pod = podOf({ mounts });
  expect(pod.volumes).toEqual([
    { name: "volume-0", persistentVolumeClaim: { claimName: "lease-2-1" } },
    { name: "volume-1", persistentVolumeClaim: { claimName: "lease-2-2" } },
  ]);
  expect(pod.container.volumeMounts).toEqual([
    { name: "volume-0", mountPath: "/a" },
    { name: "volume-1", mountPath: "/b" },
    { name: "volume-0", mountPath: "/c" },
  ]);
});

it("has an address for its ports, and always a name", () => {
  const { spec } = buildContainerService(options({ ports: [80, 443] }));
  expect(spec).toEqual({
    selector: labels,
    ports: [
      { name: "port-80", port: 80, targetPort: 80, protocol: "TCP" },
      { name: "port-443", port: 443, targetPort: 443, protocol: "TCP" },
    ],
  });
  expect(buildContainerService(options({})).spec).toEqual({ selector: labels, clusterIP: "None" });
});

it("claims the size of a volume, with the configured class of its disk", () => {
  const read = VOLUME.read('{"size":20,"type":"hdd"}');
  if (!read.ok) throw new Error("no volume");
  const { spec } = buildVolumeClaim(place, read.value, "slow");
  expect(spec).toEqual({
    accessModes: ["ReadWriteOnce"],
    resources: { requests: { storage: "20Gi" } },
    storageClassName: "slow",
  });
  expect(buildVolumeClaim(place, read.value, undefined).spec).not.toHaveProperty("storageClassName");
});
