// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {Address} from "@openzeppelin/contracts/utils/Address.sol";
import {IDepositCollector} from "./IDepositCollector.sol";

/// A collector for tests. It delivers as much of its own tokens as it is told, and calls back if it is told to.
contract OpenDepositCollector is IDepositCollector {
    function collect(address, address token, uint256, bytes32, bytes calldata data) external {
        (uint256 delivered, bytes memory callback) = abi.decode(data, (uint256, bytes));
        IERC20(token).transfer(msg.sender, delivered);
        if (callback.length > 0) Address.functionCall(msg.sender, callback);
    }
}
