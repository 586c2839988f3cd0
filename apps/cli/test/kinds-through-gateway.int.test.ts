import { reachThroughGateway } from "./reach.ts";

reachThroughGateway();
for (const file of ["job", "sets", "roll"]) await import(`./${file}.int.test.ts`);
