// Asks a model with the tools of a server once, through the AI SDK.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { createMCPClient } from "@ai-sdk/mcp";
import { Experimental_StdioMCPTransport as StdioTransport } from "@ai-sdk/mcp/mcp-stdio";
import { generateText, stepCountIs } from "ai";

const { OPENAI_BASE_URL, OPENAI_API_KEY, OPENAI_MODEL, MCP_SERVER } = process.env;
const client = await createMCPClient({ transport: new StdioTransport(JSON.parse(MCP_SERVER)) });
const provider = createOpenAICompatible({ name: "scripted", baseURL: OPENAI_BASE_URL, apiKey: OPENAI_API_KEY });
await generateText({
  model: provider(OPENAI_MODEL),
  tools: await client.tools(),
  stopWhen: stepCountIs(50),
  prompt: process.argv[2],
});
await client.close();
