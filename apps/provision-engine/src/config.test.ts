import { readDocumentedVariables, makeRecordingEnv } from "@muster/testkit";
import { expect, it } from "vitest";
import { readConfig } from "./config.ts";

const SEED = "00".repeat(32);

it("has defaults for everything but the key", () => {
  expect(readConfig({ PROVISION_KEY_FILE: "/run/key" })).toMatchObject({
    key: { file: "/run/key" },
    order: {
      engine: "main",
      verifySignatures: true,
      legacySignatures: false,
      unsealedSecrets: false,
      maxOrderAgeNs: 86_400_000_000_000n,
      maxListedAgeNs: 31_536_000_000_000_000n,
    },
    engine: { parallel: 4 },
    capacity: {},
  });
  expect(() => readConfig({})).toThrow("PROVISION_KEY_FILE is missing");
});

it("takes the key from the environment, and never shows it", () => {
  expect(readConfig({ PROVISION_KEY: SEED }).key).toHaveProperty("userId");
  const secret = "ab".repeat(33);
  let message = "";
  try {
    readConfig({ PROVISION_KEY: secret });
  } catch (error) {
    message = String(error);
  }
  expect(message).toContain("PROVISION_KEY");
  expect(message).not.toContain("abab");
  expect(JSON.stringify(readConfig({ PROVISION_KEY: "ab".repeat(32) }).key)).not.toContain("abab");
});

it("reads exactly the documented variables, with the documented defaults", () => {
  const documented = readDocumentedVariables("provision-engine");
  const needed = { MUSTER_KUBECONFIG: "/k", PROVISION_CONTAINER_POOLS: "leased", PROVISION_HTTP_URL: "http://c" };
  const { env, names } = makeRecordingEnv({ ...needed, PROVISION_KUBERNETES_URL: "https://k" });
  const signer = expect.anything() as unknown;
  const config = { ...readConfig({ ...needed, PROVISION_KEY: SEED }), key: signer };
  expect(() => readConfig(env)).toThrow("PROVISION_KEY_FILE is missing");
  expect([...names].toSorted()).toEqual([...documented.keys()].toSorted());
  const defaults = [...documented].filter(([, fallback]) => fallback !== undefined);
  expect(readConfig({ ...needed, ...Object.fromEntries(defaults), PROVISION_KEY: SEED })).toEqual(config);
});

it("limits only the units that are set", () => {
  expect(readConfig({ PROVISION_KEY: SEED, PROVISION_CAPACITY_CRU: "8" }).capacity).toEqual({ cru: 8n });
});

it("refuses an engine id that cannot be part of a subject, together with all other problems", () => {
  const read = () => readConfig({ PROVISION_KEY: SEED, PROVISION_ENGINE_ID: "a.b", PROVISION_LOCK_TTL_MS: "1" });
  expect(read).toThrow(/^environment: \nPROVISION_ENGINE_ID is "a\.b"; .*\nPROVISION_LOCK_TTL_MS is "1"; /);
});

it("serves the cluster of the kubeconfig, or the one that it runs in, or none", () => {
  const kubeOf = (env: Readonly<Record<string, string>>) => readConfig({ PROVISION_KEY: SEED, ...env }).kube;
  const storageClasses = { ssd: undefined, hdd: undefined };
  const nodes = { poolLabel: "pool", pools: [] };
  const alone = { slices: { role: "muster-lease", url: undefined }, zdb: undefined, nodes };
  expect(kubeOf({})).toBeUndefined();
  expect(kubeOf({ MUSTER_KUBECONFIG: "/k", PROVISION_STORAGE_CLASS_HDD: "slow" })).toEqual({
    kubeconfig: "/k",
    namespace: "default",
    storageClasses: { ...storageClasses, hdd: "slow" },
    ...alone,
  });
  expect(kubeOf({ KUBERNETES_SERVICE_HOST: "10.0.0.1", MUSTER_NAMESPACE: "tenants" })).toEqual({
    kubeconfig: undefined,
    namespace: "tenants",
    storageClasses,
    ...alone,
  });
});

it("reads the pools whose nodes leases share, and refuses other text", () => {
  const nodesOf = (pools: string) =>
    readConfig({ PROVISION_KEY: SEED, MUSTER_KUBECONFIG: "/k", PROVISION_CONTAINER_POOLS: pools }).kube?.nodes;
  expect(nodesOf("leased,spare-2")).toEqual({ poolLabel: "pool", pools: ["leased", "spare-2"] });
  for (const wrong of ["a b", "a,", "-a"]) expect(() => nodesOf(wrong)).toThrow("PROVISION_CONTAINER_POOLS is");
});

it("reads the image of stores, and the address of the cluster for users", () => {
  const store = { PROVISION_ZDB_IMAGE: "zdb:1", PROVISION_ZDB_COMMAND: "zdb --mode  $(ZDB_MODE)" };
  const env = { PROVISION_KEY: SEED, MUSTER_KUBECONFIG: "/k", ...store, PROVISION_KUBERNETES_URL: "https://k:6443" };
  expect(readConfig(env).kube).toMatchObject({
    slices: { role: "muster-lease", url: "https://k:6443" },
    zdb: {
      image: "zdb:1",
      port: 9900,
      command: ["zdb", "--mode", "$(ZDB_MODE)"],
      cpus: 1,
      memoryBytes: 2 ** 30,
      diskBytes: 2 ** 30,
    },
  });
  expect(() => readConfig({ ...env, PROVISION_ZDB_PORT: "0" })).toThrow("PROVISION_ZDB_PORT");
  expect(() => readConfig({ ...env, PROVISION_KUBERNETES_URL: "somewhere" })).toThrow("PROVISION_KUBERNETES_URL");
});

it.each(["PROVISION_HTTP_URL", "PROVISION_KUBERNETES_URL"])(
  "accepts no password in %s, and does not show it",
  (name) => {
    const env = { PROVISION_KEY: SEED, MUSTER_KUBECONFIG: "/k" };
    const read = (url: string) => () => readConfig({ ...env, [name]: url });
    const needed = `${name} is "https://...@k:1/"; a URL such as https://host:8080/path is needed, without a user and a password`;
    expect(read("https://u:hush@k:1/")).toThrow(needed);
    expect(read("https://u:hush@k:1/")).not.toThrow("hush");
    expect(read("nats://k:1")).toThrow(name);
    expect(read("https://k:1/a")).not.toThrow();
  },
);
