import { describeSessionSuite } from "./session-suite.ts";

describeSessionSuite("gateway");
