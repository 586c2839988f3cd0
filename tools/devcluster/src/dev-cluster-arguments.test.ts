import { describe, expect, it } from "vitest";
import { findFault } from "@muster/faults";
import { readDevClusterArguments } from "./dev-cluster-arguments.ts";

describe("readDevClusterArguments", () => {
  it("reads pools, directory, port and the second place for the kubeconfig", () => {
    const args = [
      "--directory",
      "d",
      "--pools",
      "drivers=1,workers=3",
      "--kubeconfig=k",
      "--port",
      "6443",
      "--simulated",
      "--persist",
    ];
    expect(readDevClusterArguments(args)).toEqual({
      directory: "d",
      kubeconfig: "k",
      port: 6443,
      simulated: true,
      persist: true,
      pools: [
        { name: "drivers", nodes: 1 },
        { name: "workers", nodes: 3 },
      ],
    });
  });

  it.each<[string, string[], string[]]>([
    ["nothing", [], ["--directory is missing", "--pools is missing"]],
    ["a wrong pool and port", ["--directory=d", "--pools=A=1,b", "--port=x"], ['"A=1"', '"b"', '--port is "x"']],
    ["a pool twice", ["--directory=d", "--pools=a=1,a=2"], ["names a pool twice"]],
    ["an unknown option", ["--nodes=3"], ["--nodes"]],
  ])("refuses %s and names every problem", (_title, args, problems) => {
    let fault;
    try {
      readDevClusterArguments(args);
    } catch (error) {
      fault = findFault(error);
    }
    expect(fault).toMatchObject({ code: "invalid_request" });
    for (const problem of problems) expect(JSON.stringify(fault)).toContain(JSON.stringify(problem).slice(1, -1));
  });
});
