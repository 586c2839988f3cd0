import { until } from "@muster/testkit";
import { beforeAll, describe, expect, it } from "vitest";
import { isObject, type JsonObject, listAt, numberAt, objectAt, textAt } from "../../src/apiserver/json.ts";
import { type Answer, type Api, nameIn, namesIn } from "./api.ts";

/** Stateful sets, with somebody who acts for them; the pods have no node, and the test says of them what a kubelet would. */
export function describeStatefulSets(api: () => Api): void {
  let namespace: string;
  beforeAll(async () => {
    namespace = await api().namespace();
  });
  const sets = (name = ""): string => `/apis/apps/v1/namespaces/${namespace}/statefulsets/${name}`.replace(/\/$/, "");
  const core = (plural: string, name = ""): string =>
    `/api/v1/namespaces/${namespace}/${plural}/${name}`.replace(/\/$/, "");
  const template = (app: string, image = "program:1"): object => ({
    metadata: { labels: { app } },
    spec: { containers: [{ name: "main", image }], terminationGracePeriodSeconds: 0 },
  });
  const claimSpec = { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } };
  const set = (name: string, more: object = {}): object => ({
    apiVersion: "apps/v1",
    kind: "StatefulSet",
    metadata: { name },
    spec: { serviceName: name, selector: { matchLabels: { app: name } }, template: template(name), ...more },
  });
  const itemsOf = async (plural: string, app: string): Promise<JsonObject[]> =>
    listAt((await api().get(`${core(plural)}?labelSelector=app%3D${app}`)).body, "items").filter(isObject);
  const podsUntil = (app: string, names: readonly string[]): Promise<JsonObject[]> =>
    until(`${app} has the pods ${names.join()}`, async () => {
      const found = await itemsOf("pods", app);
      return found.map(nameIn).join() === names.join() && found;
    });
  const run = async (name: string): Promise<Answer> =>
    api().patch(`${core("pods", name)}/status`, "merge", {
      status: {
        phase: "Running",
        conditions: [{ type: "Ready", status: "True", lastTransitionTime: "2026-01-01T00:00:00Z" }],
      },
    });
  const statusUntil = (name: string, wanted: Record<string, number>): Promise<JsonObject> =>
    until(`${name} comes to ${JSON.stringify(wanted)}`, async () => {
      const { body } = await api().get(sets(name));
      if (numberAt(body, "status", "observedGeneration") !== numberAt(body, "metadata", "generation")) return false;
      return Object.entries(wanted).every(([key, value]) => (numberAt(body, "status", key) ?? 0) === value) && body;
    });
  const imageOf = (pod: JsonObject): string => textAt(listAt(pod, "spec", "containers")[0], "image");
  const skipWithoutController = (context: { skip: (condition: boolean, note: string) => void }): void =>
    context.skip(!api().cluster.collects, "pods of stateful sets are the work of a controller manager");
  const causes = ({ body }: Answer): string[] =>
    listAt(body, "details", "causes").map((cause) => `${textAt(cause, "field")}: ${textAt(cause, "message")}`);

  describe("as it is written", () => {
    it("is completed, with its claims", async () => {
      const claims = [{ metadata: { name: "data" }, spec: claimSpec }];
      const made = await api().post(sets(), set("filled", { replicas: 0, volumeClaimTemplates: claims }));
      expect(made.code, made.text).toBe(201);
      expect(made.body["status"]).toEqual({ replicas: 0, availableReplicas: 0 });
      const { template: _template, ...spec } = objectAt(made.body, "spec");
      expect(spec).toEqual({
        replicas: 0,
        serviceName: "filled",
        selector: { matchLabels: { app: "filled" } },
        podManagementPolicy: "OrderedReady",
        updateStrategy: { type: "RollingUpdate", rollingUpdate: { partition: 0 } },
        revisionHistoryLimit: 10,
        persistentVolumeClaimRetentionPolicy: { whenDeleted: "Retain", whenScaled: "Retain" },
        volumeClaimTemplates: [
          {
            apiVersion: "v1",
            kind: "PersistentVolumeClaim",
            metadata: { name: "data" },
            spec: { ...claimSpec, volumeMode: "Filesystem" },
            status: { phase: "Pending" },
          },
        ],
      });
    });

    it.each([
      [
        { podManagementPolicy: "Random" },
        ["spec.podManagementPolicy: Invalid value: \"Random\": must be 'OrderedReady' or 'Parallel'"],
      ],
      [
        { updateStrategy: { type: "OnDelete", rollingUpdate: { partition: 1 } } },
        [expect.stringMatching(/^spec\.updateStrategy\.rollingUpdate: Invalid value: .*: only allowed for/)],
      ],
      [{ ordinals: { start: -1 } }, ["spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0"]],
      [{ selector: {} }, ["spec.selector: Invalid value: {}: empty selector is invalid for statefulset"]],
      [
        { persistentVolumeClaimRetentionPolicy: { whenScaled: "Keep" } },
        [expect.stringMatching(/^spec\.persistentVolumeClaimRetentionPolicy\.whenScaled: Unsupported value: "Keep"/)],
      ],
    ])("is refused with %j", async (wrong, because) => {
      const refused = await api().post(sets(), set("wrong", wrong));
      expect(refused.code, refused.text).toBe(422);
      expect(causes(refused)).toEqual(because);
    });

    it("keeps what its pods are known by", async () => {
      await api().post(sets(), set("kept", { replicas: 0 }));
      const renamed = await api().patch(sets("kept"), "merge", { spec: { serviceName: "other" } });
      expect(renamed.code).toBe(422);
      expect(causes(renamed)).toEqual([expect.stringMatching(/^spec: Forbidden: updates to statefulset spec for /)]);
      expect((await api().get(`${sets("kept")}/scale`)).body).toMatchObject({
        status: { replicas: 0, selector: "app=kept" },
      });
    });
  });

  it("makes pods in order, each with its claim, and gives them up from the last on", async (context) => {
    skipWithoutController(context);
    const volumeClaimTemplates = [{ metadata: { name: "data" }, spec: claimSpec }];
    const made = await api().post(sets(), set("db", { replicas: 2, ordinals: { start: 3 }, volumeClaimTemplates }));
    expect(made.code, made.text).toBe(201);
    const [first = {}] = await podsUntil("db", ["db-3"]);
    expect(first).toMatchObject({
      metadata: {
        labels: { app: "db", "apps.kubernetes.io/pod-index": "3", "statefulset.kubernetes.io/pod-name": "db-3" },
        ownerReferences: [{ kind: "StatefulSet", name: "db", controller: true, blockOwnerDeletion: true }],
      },
      spec: {
        hostname: "db-3",
        subdomain: "db",
        volumes: [{ name: "data", persistentVolumeClaim: { claimName: "data-db-3" } }],
      },
    });
    await run("db-3");
    await podsUntil("db", ["db-3", "db-4"]);
    await run("db-4");
    const status = await statusUntil("db", {
      replicas: 2,
      readyReplicas: 2,
      currentReplicas: 2,
      updatedReplicas: 2,
      availableReplicas: 2,
    });
    const revision = textAt(first, "metadata", "labels", "controller-revision-hash");
    expect(revision).toMatch(/^db-[a-z0-9]+$/);
    expect(objectAt(status, "status")).toMatchObject({ currentRevision: revision, updateRevision: revision });
    // One that is deleted comes again under its name, to its claim.
    const uid = textAt(first, "metadata", "uid");
    await api().delete(core("pods", "db-3"));
    await until("it is another of the same name", async () => {
      const { code, body } = await api().get(core("pods", "db-3"));
      return code === 200 && textAt(body, "metadata", "uid") !== uid;
    });
    await run("db-3");
    await api().patch(`${sets("db")}/scale`, "merge", { spec: { replicas: 1 } });
    await podsUntil("db", ["db-3"]);
    await api().delete(sets("db"));
    await podsUntil("db", []);
    expect((await itemsOf("persistentvolumeclaims", "db")).map(nameIn)).toEqual(["data-db-3", "data-db-4"]);
  });

  it("updates from the last on, down to the partition, and remembers what was before", async (context) => {
    skipWithoutController(context);
    const rolling = (partition: number) => ({
      updateStrategy: { type: "RollingUpdate", rollingUpdate: { partition } },
    });
    const policy = { podManagementPolicy: "Parallel" };
    await api().post(sets(), set("rolls", { replicas: 2, ...policy, ...rolling(1) }));
    await podsUntil("rolls", ["rolls-0", "rolls-1"]);
    await run("rolls-0");
    await run("rolls-1");
    await statusUntil("rolls", { availableReplicas: 2 });
    await api().patch(sets("rolls"), "strategic", { spec: { template: template("rolls", "program:2") } });
    const imagesUntil = (images: readonly string[]): Promise<unknown> =>
      until(`the images are ${images.join()}`, async () => {
        const found = await itemsOf("pods", "rolls");
        return found.map(imageOf).join() === images.join();
      });
    await imagesUntil(["program:1", "program:2"]);
    await run("rolls-1");
    await statusUntil("rolls", { availableReplicas: 2, currentReplicas: 1, updatedReplicas: 1 });
    // Below the partition a pod that goes comes again as it was.
    await api().delete(core("pods", "rolls-0"));
    await imagesUntil(["program:1", "program:2"]);
    await run("rolls-0");
    await statusUntil("rolls", { availableReplicas: 2 });
    const revisions = await api().get(
      `/apis/apps/v1/namespaces/${namespace}/controllerrevisions?labelSelector=app%3Drolls`,
    );
    expect(namesIn(revisions.body)).toHaveLength(2);
    expect(
      listAt(revisions.body, "items")
        .map((one) => numberAt(one, "revision"))
        .toSorted(),
    ).toEqual([1, 2]);
    await api().patch(sets("rolls"), "merge", { spec: rolling(0) });
    await imagesUntil(["program:2", "program:2"]);
    await run("rolls-0");
    const done = await statusUntil("rolls", { availableReplicas: 2, currentReplicas: 2, updatedReplicas: 2 });
    expect(textAt(done, "status", "currentRevision")).toBe(textAt(done, "status", "updateRevision"));
  });

  it("takes the claims along where it is told to", async (context) => {
    skipWithoutController(context);
    const retention = { whenDeleted: "Delete", whenScaled: "Delete" };
    const volumeClaimTemplates = [{ metadata: { name: "data" }, spec: claimSpec }];
    const more = { podManagementPolicy: "Parallel", persistentVolumeClaimRetentionPolicy: retention };
    await api().post(sets(), set("clean", { replicas: 2, ...more, volumeClaimTemplates }));
    await podsUntil("clean", ["clean-0", "clean-1"]);
    await run("clean-0");
    await run("clean-1");
    await statusUntil("clean", { availableReplicas: 2 });
    const claimsUntil = (names: readonly string[]): Promise<unknown> =>
      until(`the claims are ${names.join()}`, async () => {
        const found = await itemsOf("persistentvolumeclaims", "clean");
        return found.map(nameIn).join() === names.join();
      });
    await api().patch(`${sets("clean")}/scale`, "merge", { spec: { replicas: 1 } });
    await claimsUntil(["data-clean-0"]);
    await api().delete(sets("clean"));
    await claimsUntil([]);
  });
}
