// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/**
 * The part of the Multicall3 interface that puts many reads into one eth_call.
 *
 * A facilitator uses it to find out why a simulated transfer failed. Without it, every reason is `transaction_simulation_failed`.
 */
contract Multicall {
    struct Call {
        address target;
        bytes callData;
    }

    struct Call3 {
        address target;
        bool allowFailure;
        bytes callData;
    }

    struct Result {
        bool success;
        bytes returnData;
    }

    function tryAggregate(bool requireSuccess, Call[] calldata calls) external payable returns (Result[] memory results) {
        results = new Result[](calls.length);
        for (uint256 i = 0; i < calls.length; i++) {
            results[i] = _call(calls[i].target, calls[i].callData, !requireSuccess);
        }
    }

    function aggregate3(Call3[] calldata calls) external payable returns (Result[] memory results) {
        results = new Result[](calls.length);
        for (uint256 i = 0; i < calls.length; i++) {
            results[i] = _call(calls[i].target, calls[i].callData, calls[i].allowFailure);
        }
    }

    function getEthBalance(address account) external view returns (uint256) {
        return account.balance;
    }

    function _call(address target, bytes calldata callData, bool allowFailure) private returns (Result memory result) {
        (result.success, result.returnData) = target.call(callData);
        require(result.success || allowFailure, "Multicall3: call failed");
    }
}
