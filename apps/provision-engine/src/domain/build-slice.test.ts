import { expect, it } from "vitest";
import { buildKubeconfig, buildSliceQuota, tokenSeconds } from "./build-slice.ts";

it("limits a slice to what its size is", () => {
  expect(buildSliceQuota("n", 3).spec.hard).toEqual({
    "requests.cpu": "2",
    "limits.cpu": "2",
    "requests.memory": "8Gi",
    "limits.memory": "8Gi",
    "requests.storage": "25Gi",
    "services.nodeports": "0",
    "services.loadbalancers": "0",
  });
});

it("wants a token until the lease ends, within what Kubernetes gives", () => {
  const second = 1_000_000_000n;
  expect(tokenSeconds(1001n * second + 1n, second)).toBe(1001);
  expect(tokenSeconds(1n, second)).toBe(600);
  expect(tokenSeconds(2n ** 63n, 0n)).toBe(2 ** 32);
});

it("names the slice, its server and the token, and an authority only where there is one", () => {
  const access = { url: "https://k:6443", ca: "PEM", namespace: "n", token: "t" };
  expect(JSON.parse(buildKubeconfig(access))).toMatchObject({
    clusters: [{ cluster: { server: "https://k:6443", "certificate-authority-data": "UEVN" } }],
    users: [{ user: { token: "t" } }],
    contexts: [{ context: { namespace: "n" } }],
  });
  expect(buildKubeconfig({ ...access, ca: undefined })).not.toContain("certificate-authority");
});
