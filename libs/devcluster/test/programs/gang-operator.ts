import { kubeCalls, loadKube, type KubeCalls } from "@muster/kube";
import { startGangOperator } from "../job-controller/gangs.ts";

/**
 * An operator for gangs in a process of its own: `node gang-operator.ts KUBECONFIG PODS`. It creates so many pods, hears of one more that it is made, and then stands
 * still in the middle of its work: prints one line, and never gets another answer.
 */
const [kubeconfig = "", most = "0"] = process.argv.slice(2);
const config = loadKube(kubeconfig);
const calls = kubeCalls(config);
let made = 0;

const create: KubeCalls["create"] = async (resource, object, options) => {
  const answer = await calls.create(resource, object, options);
  if (resource.plural !== "pods") return answer;
  made += 1;
  if (made <= Number(most)) return answer;
  process.stdout.write(`standing still\n`);
  return new Promise(() => undefined);
};
startGangOperator({ config, calls: { ...calls, create } });
